import pytest

from scumble.errors import UnknownNameError
from scumble.registry import Registry


def test_an_unknown_name_offers_the_nearest_and_lists_the_known():
    networks = Registry("network")
    networks.register("carn")(1)
    networks.register("edsr")(2)
    assert networks["carn"] == 1
    assert "edsr" in networks
    with pytest.raises(UnknownNameError) as refused:
        networks["edrs"]
    assert str(refused.value) == "no network named 'edrs'. Did you mean 'edsr'? Known: carn, edsr."
    with pytest.raises(UnknownNameError, match=r"no network named 'xyz'. Known: carn, edsr."):
        networks["xyz"]
