"""Networks as ONNX models: one file, for any number of pictures of any size."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from scumble.errors import ExportError
from scumble.exports.comparison import Run, pictures
from scumble.exports.facts import Facts
from scumble.exports.formats import FORMATS, Format
from scumble.version import __version__

INPUT, OUTPUT = "picture", "restored"
OPSET = 18
_SIDES = {0: "batch", 2: "height", 3: "width"}
_NO_LIMIT = "int_oo"  # torch's own infinity


class Onnx(Format):
    """An ONNX model."""

    name = "onnx"
    endings = (".onnx",)
    to_write = ("onnx", "onnxscript")
    to_verify = ("onnxruntime",)

    def content(self, network: nn.Module, facts: Facts) -> bytes:
        """Return a model for pictures of any size, with the facts among its properties."""
        model = to_onnx(network, pictures(network)[-1], any_size=True)
        model.producer_name, model.producer_version = "scumble", __version__
        for key, value in facts.properties().items():
            model.metadata_props.add(key=key, value=value)
        return model.SerializeToString(deterministic=True)

    def opened(self, content: bytes, network: nn.Module) -> Run:
        """Return the model in a session of ONNX Runtime."""
        import onnxruntime

        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

        def run(picture: Tensor) -> Tensor:
            (made,) = session.run(None, {INPUT: picture.numpy()})
            return torch.from_numpy(made)

        return run


def to_onnx(network: nn.Module, picture: Tensor, any_size: bool) -> Any:
    """Return the ONNX model of a network, for pictures like the given one or of any size."""
    title = type(network).__name__
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                network,
                (picture,),
                dynamo=True,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=(_SIDES,) if any_size else None,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise ExportError(f"{title} cannot be written as ONNX: {_reason(error)}") from error
    assert program is not None
    if any_size:
        _refuse_limits(program.exported_program, title)
    model = program.model_proto
    _forget_origins(model.graph)
    return model


def _refuse_limits(exported: Any, title: str) -> None:
    """Refuse a network that goes another way for large pictures: a model holds only one way."""
    limits = [str(one.upper) for one in exported.range_constraints.values()]
    limit = next((one for one in limits if one != _NO_LIMIT), None)
    if limit is not None:
        raise ExportError(
            f"{title} cannot be written as ONNX for pictures of any size: it does something else "
            f"for more than {limit} pixels a side"
        )


def _forget_origins(graph: Any) -> None:
    """Take out the exporter's notes: half of a small file, and folders of this machine."""
    del graph.metadata_props[:]
    for named in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del named.metadata_props[:]
        named.doc_string = ""


def _reason(error: BaseException) -> str:
    """Return the first sentences of what went wrong first."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = " ".join(str(error).split()).partition(" (")[0]
    return said[:300] or type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's remarks about its own insides to itself."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


FORMATS.register("onnx")(Onnx())
