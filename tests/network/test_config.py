import pytest

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network.config import VARIANTS, ModelConfig
from shadowmaskformer.network.kinds import find_variant


def test_attention_share_of_fourteen_blocks_starts_at_the_fourth():
    # Block i of d attends if i >= d - r*d in real numbers; d = 14, r = 3/4 gives 4...13.
    config = ModelConfig(depths=(16, 16, 14, 8, 8))
    assert [i for i in range(14) if config.uses_attention(2, i)] == list(range(4, 14))
    assert not any(config.uses_attention(3, i) for i in range(8))


def test_configuration_survives_json_types():
    for config in VARIANTS.values():
        assert ModelConfig.from_dict(config.to_dict()) == config


def test_unknown_key_is_refused_by_name():
    with pytest.raises(ConfigError, match="'w3'"):
        ModelConfig.from_dict({"w3": 1})


@pytest.mark.parametrize(
    "values",
    [
        {"depths": (1, 2)},
        {"heads": (5, 4, 6, 1, 1)},
        {"widths": (24, 48, 96, 24, 24)},
        {"depths": (0, 1, 1, 1, 1)},
    ],
)
def test_impossible_configurations_are_refused(values: dict[str, tuple[int, ...]]):
    with pytest.raises(ConfigError):
        ModelConfig(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window": 2.5}, "window in the model configuration is 2.5; expected a value such as 10"),
        ({"window": True}, "window .* is true"),
        ({"depths": [1, 1.5, 1, 1, 1]}, "depths .* holds 1.5; expected whole numbers"),
        ({"depths": "middle"}, 'depths .* is "middle"; expected a value such as .16, 16'),
        ({"attention_conv": 1}, "attention_conv .* is 1; expected a value such as true"),
        ({"embedding": None}, "embedding .* is null"),
    ],
)
def test_values_are_checked_against_the_annotations(values: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        ModelConfig.from_dict(values)


def test_whole_numbers_may_stand_for_floats():
    config = ModelConfig.from_dict({"w2": 1, "attention_shares": [0, 1, 0.5, 0, 0]})
    assert isinstance(config.w2, float)
    assert config.attention_shares == (0, 1, 0.5, 0, 0)


def test_unknown_variant_names_the_known_ones():
    with pytest.raises(ConfigError, match="nano, small, middle, large"):
        find_variant("huge")
