"""Home Assistant's translations, from a small wheel."""

import json
import zipfile

import pytest

from data_prep import home_assistant
from data_prep.home_assistant import aligned, extract, split_of
from data_prep.text import read_lines
from residual_fairseq.errors import UsageError


def write_wheel(path, components):
    """A wheel of components: by name, by language, texts by key."""
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("homeassistant/const.py", "")
        for component, languages in components.items():
            for lang, texts in languages.items():
                name = f"homeassistant/components/{component}/translations/{lang}.json"
                wheel.writestr(name, json.dumps(texts))
    return path


def names_of(split, count):
    names = (f"made{number}" for number in range(10_000))
    return [name for name in names if split_of(name) == split][:count]


@pytest.fixture
def wheel(tmp_path):
    components = {}
    for split in ("train", "valid", "test"):
        for i, name in enumerate(names_of(split, 3)):
            components[name] = {
                "en": {
                    "title": "Short",
                    "same": "Not translated at all",
                    "common": {"error": "Failed to connect to it"},
                    "own": f"Only here in {name} of {split}\nand on a second line",
                    "more": f"English lacks in German {i}",
                },
                "de": {
                    "title": "Kurz",
                    "same": "Not translated at all",
                    "common": {"error": "Verbindung dazu fehlgeschlagen"},
                    "own": f"Nur hier in {name} von {split}\nund in einer zweiten Zeile",
                },
                "zh-Hans": {"own": f"只在{name}\n第二行{name}"},
            }
    return write_wheel(tmp_path / "ha.whl", components)


def test_no_text_of_the_test_set_is_trained_on(wheel, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    counts = extract(wheel, "de", "en", out)
    assert counts["train"]["components"] == 3
    assert counts["train"]["dropped"] == {
        "fewer than 3 words": 3,
        "not translated": 3,
        # The second line of "own" and the error message, in two more components.
        "seen before": 4,
    }
    assert counts["test"]["dropped"]["in the training text"] == 6
    assert counts["test"]["pairs"] == 3
    train, test = (set(read_lines(out / f"{split}.en")) for split in ("train", "test"))
    assert "Failed to connect to it" in train and not train & test
    assert len(list(read_lines(out / "test.de"))) == 3


@pytest.mark.parametrize(
    "texts",
    [
        {"en": "Only in valid and test", "de": "Nur in beiden"},
        # Other German for the same English, and the same German for other English.
        {"en": "Only in valid and test", "de": "Nur dort"},
        {"en": "Not in the training text", "de": "Nur in beiden"},
    ],
    ids=["both", "English", "German"],
)
def test_no_text_of_the_test_set_is_in_the_validation_set(tmp_path, texts):
    first = {"en": {"a": "Only in valid and test"}, "de": {"a": "Nur in beiden"}}
    components = {
        split: {lang: {"own": f"{lang} text of {split}"} for lang in ("en", "de")}
        for split in ("train", "valid", "test")
    }
    for lang in ("en", "de"):
        components["valid"][lang] |= first[lang]
        components["test"][lang]["b"] = texts[lang]
    named = {names_of(split, 1)[0]: content for split, content in components.items()}
    (tmp_path / "out").mkdir()
    counts = extract(write_wheel(tmp_path / "ha.whl", named), "de", "en", tmp_path / "out")
    assert counts["valid"]["pairs"] == 2
    assert counts["test"]["dropped"] == {"in the validation text": 1}
    assert list(read_lines(tmp_path / "out" / "test.de")) == ["de text of test"]


def test_test_sets_of_all_languages_have_the_same_components(wheel, tmp_path):
    for target in ("en", "zh_Hans"):
        (tmp_path / target).mkdir()
        extract(wheel, "de", target, tmp_path / target)
    german = [set(read_lines(tmp_path / target / "test.de")) for target in ("en", "zh_Hans")]
    assert german[0] <= german[1]


def test_lines_are_aligned_if_their_numbers_agree():
    assert aligned("a\n\nb", "c\nd\n") == [("a", "c"), ("b", "d")]
    assert aligned("a\nb", "c d") == [("a b", "c d")]
    assert aligned("a\u2028b\x85", "c\rd") == [("a b", "c d")]


@pytest.mark.parametrize(
    ("languages", "message"),
    [(("de", "xx"), "--target xx: ha.whl has de en zh_Hans"), (("yy", "en"), "--source yy")],
)
def test_unknown_languages(wheel, tmp_path, languages, message):
    with pytest.raises(UsageError, match=message):
        extract(wheel, *languages, tmp_path)


def test_other_files(tmp_path):
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("other/__init__.py", "")
    with pytest.raises(UsageError, match="not a wheel of Home Assistant"):
        extract(other, "de", "en", tmp_path)
    other.write_text("no zip")
    with pytest.raises(UsageError, match="not a wheel of Home Assistant"):
        extract(other, "de", "en", tmp_path)
    with pytest.raises(UsageError, match="nowhere"):
        home_assistant.main(["--archive", str(tmp_path / "nowhere"), "--out", str(tmp_path / "o")])
