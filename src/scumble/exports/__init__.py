"""Networks as files for other programs: ONNX, and plain weights."""

from scumble.exports.comparison import Comparison
from scumble.exports.writing import Exported, export

__all__ = ["Comparison", "Exported", "export"]
