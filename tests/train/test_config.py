from __future__ import annotations

from pathlib import Path

import pytest

from shadowmaskformer.errors import ConfigError
from shadowmaskformer.train import TrainConfig, load_recipe
from shadowmaskformer.train.config import RECIPES, without_effect


def test_the_paper_recipe_is_the_paper() -> None:
    # Section IV of the paper, as gathered in the field's facts: L1, AdamW 2e-4, decay 0.02, batch 1,
    # cosine to zero over 300 epochs of 256x256 pictures, no augmentation.
    paper = load_recipe("paper")
    assert paper.losses == {"l1": 1.0}
    assert (paper.learning_rate, paper.weight_decay, paper.final_learning_rate) == (2e-4, 0.02, 0.0)
    assert (paper.batches, paper.sizes, paper.epochs, paper.steps) == ((1,), (256,), 300.0, 0)
    assert (paper.warmup, paper.clip_norm, paper.ema_decay, paper.augment) == (0, 0, 0, {})
    assert paper.truth == "as-taken"
    assert (paper.variant, paper.embedding, paper.zero_head) == ("middle", "mape", False)


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.toml")))
def test_every_recipe_loads_and_survives_a_round_trip(name: str) -> None:
    config = load_recipe(name)
    assert TrainConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("learning_rate=3e-4", "learning_rate", 3e-4),
        ("epochs=2", "epochs", 2.0),
        ("variant=nano", "variant", "nano"),
        ('variant="nano"', "variant", "nano"),
        ("batches=[2]", "batches", (2,)),
        ("truth=own-light", "truth", "own-light"),
        ("zero_head=true", "zero_head", True),
        ("augment.flip=0.5", "augment", {"flip": 0.5}),
        ("losses={psnr=1.0}", "losses", {"psnr": 1.0}),
    ],
)
def test_every_key_can_be_overridden(text: str, key: str, value: object) -> None:
    assert getattr(load_recipe("paper", [text]), key) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lerning_rate=1", "unknown key 'lerning_rate'"),
        ("learning_rate=fast", 'learning_rate in .* is "fast"'),
        ("zero_head=1", "zero_head"),
        ("seed=true", "seed"),
        ("seed", "no value"),
        ("variant=huge", "no variant 'huge'"),
        ("sizes=[64, 128]", "one of each per stage"),
        ("shares=[0.5]", "add up to 1"),
        ("truth=own", "truth is 'own'; choose one of as-taken, own-light"),
        ("precision=double", "choose float32 or mixed"),
        ("epochs=0", "no length"),
        ("validations=0", "no weights would be kept"),
        ("validation_pictures=0", "at least 1"),
        ("seed=-1", "seed 0"),
        ('batches=["4"]', 'batches .* holds "4"'),
        ("losses.l1=high", 'losses .* holds "high"'),
        ("augment.flop=0.5", "unknown key 'flop' in the recipe's augment table; known: crop, smallest_crop, flip"),
        ("augment.flip=2.0", "augment.flip is 2.0"),
        ("sizes.0=32", "sizes is no table"),
        ("seed.x=1", "seed is no table"),
    ],
)
def test_a_bad_override_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe("paper", [text])


def test_a_recipe_file_is_read_and_a_missing_one_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('variant = "small"\nsteps = 5\n')
    assert load_recipe(str(path)).steps == 5
    with pytest.raises(ConfigError, match="cpu, detector, paper, photo"):
        load_recipe("papers")
    path.write_text("variant = \n")
    with pytest.raises(ConfigError, match="not TOML"):
        load_recipe(str(path))


@pytest.mark.parametrize(
    "override",
    ["beta2=1.5", "weight_decay=-1.0", "clip_norm=-1.0", "batches=[2.0]", "sizes=[32.5]", "depths=[1.5, 1, 1, 1, 1]"],
)
def test_values_that_make_no_sense_are_refused(override: str) -> None:
    with pytest.raises(ConfigError):
        load_recipe("paper", [override])


def test_messages_show_values_as_recipes_write_them() -> None:
    with pytest.raises(ConfigError, match=r"is 256; expected a value such as \[256\]"):
        load_recipe("paper", ["sizes=256"])
    with pytest.raises(ConfigError, match='is "True"; expected a value such as true'):
        load_recipe("paper", ["attention_conv=True"])


def test_keys_without_effect_are_named() -> None:
    cpu, paper = load_recipe("cpu"), load_recipe("paper", ["steps=5"])
    assert len(without_effect(cpu, ["steps", "epochs", "w1", "seed"], 1.0)) == 3
    assert len(without_effect(paper, ["steps", "epochs", "w1"], None)) == 1
