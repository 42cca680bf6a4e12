"""Real translations in 60 languages out of a package registry: those of Home Assistant.

The wheel of Home Assistant (Apache-2.0) holds what its interface says, component by component,
in English and in the translations of its volunteers: 24,000 German-English pairs of three words
or more. Software text with placeholders, so no benchmark, but real language, written by people,
and it needs no other network than ``pip`` does.

Which split a component belongs to does not depend on the languages, so the test sets of all
languages are translations of each other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from data_prep import command
from data_prep.fetch import facts
from data_prep.options import Options
from data_prep.pipeline import Text, describe, plan_of, prepare
from data_prep.text import normalise, write_pairs
from residual_fairseq.errors import UsageError

#: Pinned, since every release has other texts.
VERSION = "2026.11.0"
WHEEL = f"homeassistant-{VERSION}-py3-none-any.whl"
SHA256 = "7ca5fbde9dea879ac7723949fc84347aac5182e6309c357b2e4973fd391b00f7"

#: Of a hundred components, how many are for testing and for validation.
PERCENT = {"test": 8, "valid": 4}


def download(folder: Path) -> Path:
    """Have pip download the wheel, unless it is there.

    Raises:
        UsageError: pip failed.
    """
    wheel = folder / WHEEL
    if not wheel.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # The package wants a newer Python than ours, but its texts do not.
        options = ["--no-deps", "--ignore-requires-python", "--only-binary", ":all:"]
        process = subprocess.run(
            [sys.executable, "-m", "pip", "download", *options]
            + ["--dest", str(folder), f"homeassistant=={VERSION}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if process.returncode:
            lines = [line for line in process.stderr.split("\n") if line.startswith("ERROR")]
            reason = lines[-1] if lines else process.stderr.strip().split("\n")[-1]
            raise UsageError(
                f"pip could not download homeassistant {VERSION} ({reason[:200]}): give its wheel "
                f"with --archive"
            )
    return wheel


def split_of(component: str) -> str:
    """The split of a component: by a hash of its name, so that new components move no old one."""
    number = int(hashlib.sha256(component.encode()).hexdigest(), 16) % 100
    for split, percent in PERCENT.items():
        if number < percent:
            return split
        number -= percent
    return "train"


def texts(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text of a translation file, and the keys that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, (*path, key))
    elif isinstance(value, str):
        yield path, value


def aligned(one: str, other: str) -> list[tuple[str, str]]:
    """The lines of a text and of its translation; all in one if their numbers differ."""
    sides = [[line for line in map(normalise, text.split("\n")) if line] for text in (one, other)]
    if len(sides[0]) != len(sides[1]):
        sides = [[" ".join(side)] for side in sides]
    return list(zip(*sides))


def extract(wheel: Path, source: str, target: str, out: Path, min_words: int = 3) -> dict:
    """Write ``{train,valid,test}.LANG`` from a wheel of Home Assistant.

    A pair is in once a split; it is left out where its English has fewer than ``min_words`` words
    or its two sides are equal, and out of valid and test if either side, or the English text that
    both come from, is in the training text, or out of test if it is in the validation text.

    Args:
        source, target: languages as the wheel has them, with ``_`` for ``-``: ``zh_Hans``.

    Returns:
        for each split the number of components, of pairs, and of pairs dropped by reason.

    Raises:
        UsageError: no such wheel, or it lacks a language.
    """
    try:
        archive = zipfile.ZipFile(wheel)
    except FileNotFoundError:
        raise UsageError(f"--archive {wheel}: there is no such file") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"--archive {wheel}: not a wheel of Home Assistant ({error})") from None
    with archive:
        folders: dict[str, set[str]] = {}
        for name in archive.namelist():
            parts = name.split("/")
            if len(parts) == 5 and parts[3] == "translations" and parts[4].endswith(".json"):
                folders.setdefault(parts[2], set()).add(parts[4][: -len(".json")])
        if not folders:
            raise UsageError(f"--archive {wheel}: not a wheel of Home Assistant")
        names = {lang: lang.replace("_", "-") for lang in (source, target)}
        known = set().union(*folders.values())
        for flag, lang in (("source", source), ("target", target)):
            if names[lang] not in known:
                languages = " ".join(sorted(name.replace("-", "_") for name in known))
                raise UsageError(f"--{flag} {lang}: {wheel.name} has {languages}")

        def load(component: str, lang: str) -> dict[tuple[str, ...], str]:
            file = f"homeassistant/components/{component}/translations/{lang}.json"
            try:
                return dict(texts(json.loads(archive.read(file).decode("utf-8"))))
            except (ValueError, zipfile.BadZipFile) as error:
                raise UsageError(f"--archive {wheel}: {file}: {error}") from None

        found: dict[str, list[tuple[str, str, str]]] = {"train": [], "valid": [], "test": []}
        components: Counter[str] = Counter()
        for component in sorted(folders):
            if not folders[component] >= {"en", *names.values()}:
                continue
            english, *sides = (load(component, lang) for lang in ("en", *names.values()))
            split = split_of(component)
            components[split] += 1
            for key, text in english.items():
                if all(key in side for side in sides):
                    pairs = aligned(*(side[key] for side in sides))
                    originals = [one for one, _ in aligned(text, text)]
                    if len(originals) != len(pairs):
                        originals = [" ".join(originals)] * len(pairs)
                    found[split] += [(o, *pair) for o, pair in zip(originals, pairs)]

    counts = {}
    earlier: dict[str, set[str]] = {}
    for split, rows in found.items():
        kept: dict[tuple[str, str], None] = {}
        originals: set[str] = set()
        dropped: Counter[str] = Counter()
        for original, *pair in rows:
            if len(original.split()) < min_words:
                dropped[f"fewer than {min_words} words"] += 1
            elif pair[0] == pair[1] or not all(pair):
                dropped["not translated"] += 1
            elif tuple(pair) in kept:
                dropped["seen before"] += 1
            elif seen := [name for name in earlier if earlier[name] & {original, *pair}]:
                dropped[f"in the {seen[0]} text"] += 1
            else:
                kept[tuple(pair)] = None
                originals.add(original)
        if split == "train":
            # Also what is too short to be trained on.
            earlier["training"] = {text for row in rows for text in row}
        elif split == "valid":
            earlier["validation"] = originals.union(*kept)
        if not kept:
            raise UsageError(f"--archive {wheel}: no {split} pairs for {source} and {target}")
        write_pairs(out / f"{split}.{source}", out / f"{split}.{target}", kept)
        counts[split] = {
            "components": components[split],
            "pairs": len(kept),
            "dropped": dict(sorted(dropped.items())),
        }
    return counts


def parse(arguments: list[str] | None) -> argparse.Namespace:
    line = command.parser(
        "home_assistant",
        f"Prepares the translations in Home Assistant {VERSION}: downloads its wheel with pip, "
        "aligns texts by their keys, splits them by component.",
        "data/home_assistant",
        archive="the wheel",
    )
    line.add_argument("--source", default="de", metavar="LANG", help="(default: %(default)s)")
    line.add_argument("--target", default="en", metavar="LANG", help="(default: %(default)s)")
    line.add_argument(
        "--min-words",
        type=int,
        default=3,
        metavar="N",
        help="leave out texts of fewer words in English (default: %(default)s)",
    )
    line.add_argument(
        "--bpe-merges", type=int, default=8000, metavar="N", help="(default: %(default)s)"
    )
    return line.parse_args(arguments)


def read_options(args: argparse.Namespace) -> Options:
    return Options(args.source, args.target, bpe_merges=args.bpe_merges, vocabulary_threshold=0)


def plan(arguments: list[str]) -> dict:
    """What a preparation with these flags is going to make."""
    return plan_of(read_options(parse(arguments)))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    args = parse(arguments)
    options = read_options(args)
    wheel = args.archive or download(args.downloads)
    if wheel.is_dir():
        wheel = wheel / WHEEL
    try:
        used = facts(wheel)
    except OSError as error:
        raise UsageError(f"--archive {wheel}: {error.strerror}") from None
    if used["sha256"] != SHA256:
        print(f"WARNING: {wheel} is not {WHEEL}: results will not compare", file=sys.stderr)
    text = Text(
        {WHEEL: used},
        lambda out: extract(wheel, args.source, args.target, out, args.min_words),
        options={"min_words": args.min_words},
        benchmark="home_assistant",
        sources={WHEEL: "--archive" if args.archive else f"pip download homeassistant=={VERSION}"},
    )
    print(describe(prepare(text, options, args.out, args.workers)))


if __name__ == "__main__":
    main()
