import pytest
import torch

import scumble
from scumble.errors import NetworkError, ScumbleError, UnknownNameError
from scumble.models import MODELS, NetworkSpec
from scumble.nn.surgery import choose


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_pictures_grow_by_the_scale(name, scale):
    network = scumble.build(name, scale=scale, features=32)
    assert network(torch.rand(2, 3, 17, 19)).shape == (2, 3, 17 * scale, 19 * scale)


@pytest.mark.parametrize("name", ["edsr", "carn"])
def test_a_picture_of_the_mean_colour_passes_the_silenced_network(name):
    network = scumble.build(name, scale=2, features=8)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        out = network(torch.rand(1, 3, 8, 8))
    expected = torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1).expand(1, 3, 16, 16)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize(
    ("name", "parameters"), [("edsr", 1517571), ("carn", 1111875), ("rfdn", 826800)]
)
def test_true_counts_of_parameters(name, parameters):
    network = scumble.build(f"{name}-x4")
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert scumble.inspect(network).cost.parameters == parameters


@pytest.mark.parametrize(
    ("name", "dense"), [("edsr", ["head", "tail"]), ("carn", ["head", "tail"]), ("rfdn", ["head"])]
)
def test_the_paper_prunes_all_but_the_first_and_the_painting_layer(name, dense):
    network = scumble.build(f"{name}-x4")
    chosen = choose(network, 32)
    convs = [n for n, module in network.named_modules() if isinstance(module, torch.nn.Conv2d)]
    assert [n for n in convs if n not in chosen] == dense


def test_a_name_may_carry_the_scale():
    assert NetworkSpec.of("carn-x3").arguments["scale"] == 3
    assert str(NetworkSpec.of("edsr")) == "edsr-x4"
    assert NetworkSpec.of("edsr", blocks=2) == NetworkSpec.of("edsr-x4", blocks=2, features=64)


def test_a_spec_is_written_in_one_word():
    expected = NetworkSpec.of("edsr-x2", features=16, blocks=1)
    assert NetworkSpec.parse("EDSR-x2, features=16,blocks = 1") == expected
    assert NetworkSpec.parse(" carn ") == NetworkSpec.of("carn")
    assert NetworkSpec.parse("carn,scale=3") == NetworkSpec.parse("carn-x3,scale=3")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("edsr,blocks", "are written once each, with whole numbers, .* got 'edsr,blocks'"),
        ("edsr,blocks=1.5", "with whole numbers"),
        ("edsr,blocks=1,blocks=1", "once each"),
        ("edsr,blocks=-1", "edsr: blocks needs to be 1 to 1024, got -1"),
        ("edsr-x2,scale=3", "edsr-x2 needs scale 2 or none, got scale=3"),
        ("edsr-x5", "a scale is 2, 3 or 4, got 5"),
        ("edsr-x" + "9" * 5000, "no network named"),
        (" ,blocks=1", "a network needs a name, such as carn-x4"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(text, sentence):
    with pytest.raises(ScumbleError, match=sentence):
        NetworkSpec.parse(text).build()


@pytest.mark.parametrize("name", list(MODELS))
def test_a_state_dict_holds_only_what_is_trained(name):
    network = scumble.build(name, features=8)
    assert list(network.state_dict()) == [key for key, _ in network.named_parameters()]


def test_unknown_names_offer_the_nearest():
    with pytest.raises(UnknownNameError, match="no network named 'crn'. Did you mean 'carn'"):
        scumble.build("crn")
    with pytest.raises(
        UnknownNameError, match="no argument of edsr named 'block'. Did you mean 'blocks'"
    ):
        scumble.build("edsr", block=3)


def test_impossible_arguments_are_refused():
    with pytest.raises(NetworkError, match="a scale is 2, 3 or 4, got 5"):
        scumble.build("carn-x5")
    with pytest.raises(NetworkError, match="edsr: features needs to be 1 to 1024, got 1000000000"):
        scumble.build("edsr", features=10**9)
