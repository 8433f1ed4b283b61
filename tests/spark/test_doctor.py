"""What is said where Spark cannot run."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError
from slotreeve_spark import doctor


@pytest.mark.parametrize(
    ("output", "good"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "21" 2023-09-19', True),
        ('java version "1.8.0_392"', False),
        ('openjdk version "11.0.2" 2019-01-15', False),
        ("something else", False),
    ],
)
def test_java_is_judged_by_its_version(output: str, good: bool) -> None:
    finding = doctor.judge_java("/usr/bin/java", output)
    assert finding.good is good
    assert good or finding.problem


def test_a_java_home_without_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = doctor.java()
    assert "from JAVA_HOME) cannot be run" in finding.problem
    with pytest.raises(ConfigError, match="install OpenJDK 17"):
        doctor.must_be_fit()


def test_no_java_at_all_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no Java" in doctor.java().problem


@pytest.mark.parametrize(("version", "good"), [("2.1.4", False), ("2.2.0", True), ("2.3.3", True), ("3.0.0", False)])
def test_pandas_is_judged_by_its_version(version: str, good: bool) -> None:
    finding = doctor.library("pandas", lambda _name: version)
    assert finding.good is good
    assert good or "pandas>=2.2,<3" in finding.remedy


def test_a_missing_library_is_reported() -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    finding = doctor.library("pyspark", missing)
    assert (finding.problem, finding.good) == ("pyspark is not installed", False)
    assert "slotreeve[spark]" in finding.remedy
