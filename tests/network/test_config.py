import pytest

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.network.config import VARIANTS, ModelConfig, variant


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


def test_unknown_variant_names_the_known_ones():
    with pytest.raises(ConfigError, match="nano, small, middle, large"):
        variant("huge")
