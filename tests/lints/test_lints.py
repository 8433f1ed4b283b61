"""The rules of the house hold over the whole tree. Each test is one rule, and lists everything that breaks it.

A rule that cannot fail would be no rule: each is shown something that it forbids, too.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import pytest

from tests.lints import declarations, imports, references, shapes
from tests.lints.rooms import MOST_FOLDERS, OTHER_FOLDERS, PACKAGES, ROOT, TOP_FOLDERS
from tests.lints.sources import Finding, Source, below, everything, of_package, pages, product

BAD_CORE = Source(
    "servers/slotreeve_servers/data/slots/bad.py",
    "import time, socket, zmq, kernel\n"
    "from slotreeve_client import Client\n"
    "from slotreeve_servers.meta import core\n"
    "from . import slots\n"
    "class Connection: ...\n"
    "x: Connection = time.monotonic()\n",
)
BAD_SHAPES = Source(
    "client/slotreeve_client/bad.py",
    "Done = Callable[[], None]\n"
    "class Big:\n"
    + "".join(f"    def m{n}(self): ...\n" for n in range(31))
    + "class Big: ...\n"
    + "def many(a, b, c, d, e, f, g, *, h): ...\n"
    + "def calls(a: Callable[[], None], b: Done | None, c: typing.Callable[[], None], d: Done, e: int): ...\n"
    + "x = 1  # fmt"
    + ": skip\n"
    + "\n" * 500,
)


def nothing(findings: Iterable[Finding]) -> None:
    """Nothing is found; else the test fails, and lists all of it."""
    if found := [*findings]:
        pytest.fail("\n".join(map(str, found)), pytrace=False)


def prose() -> list[tuple[str, str]]:
    return [*((each.place, each.prose) for each in everything()), *pages()]


def whats(findings: Iterable[Finding]) -> list[str]:
    return [finding.what for finding in findings]


# --- the tree --------------------------------------------------------------------------------------------------------


def test_there_are_rooms_to_look_at() -> None:
    assert {"slotreeve", "slotreeve_balancer", "slotreeve_election_fle", "slotreeve_face_rest"} <= PACKAGES.keys()
    for package in PACKAGES:
        assert of_package(package), package
    assert len(imports.cores()) > 60


def test_the_tree_has_few_folders_at_its_top() -> None:
    folders = {*TOP_FOLDERS, *OTHER_FOLDERS}
    assert all((ROOT / folder).is_dir() for folder in folders)
    assert len(folders) <= MOST_FOLDERS


def test_a_module_imports_only_from_the_rooms_it_stands_on() -> None:
    nothing(imports.foreign_rooms(each for package in PACKAGES for each in of_package(package)))


def test_the_kernel_stands_on_three_libraries_only() -> None:
    nothing(imports.foreign_libraries(of_package("slotreeve")))


def test_meta_data_and_session_servers_do_not_know_each_other() -> None:
    nothing(imports.other_roles(of_package("slotreeve_servers")))


def test_a_plugins_front_door_imports_the_kernel_only() -> None:
    nothing(imports.heavy_front_doors())


def test_time_chance_sockets_and_threads_are_handed_in() -> None:
    nothing(imports.taken_by_itself(each for package in PACKAGES for each in of_package(package)))


def test_a_core_names_no_connection() -> None:
    nothing(imports.named_connections(imports.cores()))


def test_functions_take_few_arguments_and_few_callables() -> None:
    nothing([*shapes.too_many_callables(everything()), *shapes.too_many_arguments(everything())])


def test_classes_and_modules_have_one_subject() -> None:
    nothing([*shapes.too_many_methods(everything()), *shapes.too_long(product())])


def test_class_names_are_unique_over_the_product() -> None:
    nothing(shapes.same_class_names(product()))


def test_the_formatter_is_never_switched_off() -> None:
    nothing(shapes.unformatted(everything()))


def test_tests_that_start_programs_are_in_a_lane_that_has_them() -> None:
    nothing(shapes.tests_of_programs_in_check(below("tests")))


def test_patches_of_the_product_have_its_signatures() -> None:
    nothing(shapes.unchecked_patches(everything()))


def test_references_in_pages_docstrings_and_comments_lead_somewhere() -> None:
    nothing(references.unlisted_invariants(prose()))
    nothing([*references.missing_documents(prose()), *references.unexplained(prose())])


def test_every_list_of_rooms_is_the_list_of_rooms() -> None:
    nothing(declarations.other_lists(declarations.pyproject(), (ROOT / "docs/architecture.md").read_text()))


def test_every_package_is_regular_and_typed() -> None:
    nothing(declarations.incomplete_packages())


def test_the_version_has_one_place_and_pins_are_names_and_versions() -> None:
    nothing(declarations.second_versions(declarations.pyproject()))
    nothing(declarations.odd_pins((ROOT / "constraints.txt").read_text()))


# --- the rules see what they forbid ----------------------------------------------------------------------------------


def test_imports_that_are_forbidden_are_found() -> None:
    assert whats(imports.foreign_rooms([BAD_CORE])) == [
        "imports zmq",
        "imports the folder kernel",
        "imports slotreeve_client",
        "a relative import hides the room",
    ]
    kernel = Source("kernel/slotreeve/bad.py", "import yaml\nimport slotreeve_protocol\n")
    assert whats(imports.foreign_libraries([kernel])) == ["imports yaml", "imports slotreeve_protocol"]
    assert whats(imports.other_roles([BAD_CORE])) == ["imports slotreeve_servers.meta"]
    assert whats(imports.taken_by_itself([BAD_CORE])) == ["uses time.monotonic", "imports socket"]
    assert [finding.place for finding in imports.named_connections([BAD_CORE])] == [BAD_CORE.at(6)]


def test_shapes_that_are_forbidden_are_found() -> None:
    assert whats(shapes.too_many_methods([BAD_SHAPES])) == ["Big has 31 methods"]
    assert whats(shapes.too_many_arguments([BAD_SHAPES])) == ["many takes 8 arguments"]
    assert whats(shapes.too_many_callables([BAD_SHAPES])) == ["calls takes 4 callables: a, b, c, d"]
    assert whats(shapes.too_long([BAD_SHAPES])) == ["537 lines"]
    assert [finding.place for finding in shapes.unformatted([BAD_SHAPES])] == [BAD_SHAPES.at(37)]
    assert len(whats(shapes.same_class_names([BAD_SHAPES]))) == 1
    marked = "import pytest\npytestmark = pytest.mark.processes\n"
    assert whats(shapes.tests_of_programs_in_check([Source("tests/cli/test_a.py", marked)])) == [
        "has the mark processes in the lane check"
    ]
    assert whats(shapes.tests_of_programs_in_check([Source("tests/cli/real/test_a.py", marked)])) == []
    patching = Source("tests/a.py", "from unittest.mock import patch\nx = patch.object(A, 'b', c)\n")
    assert [finding.place for finding in shapes.unchecked_patches([patching])] == ["tests/a.py:2"]


def test_a_command_may_have_an_argument_for_each_option() -> None:
    many = "a, b, c, d, e, f, g, h"
    text = (
        f"@app.command()\ndef one({many}): ...\ndef two({many}): ...\napp.command('2')(two)\ndef other({many}): ...\n"
    )
    assert whats(shapes.too_many_arguments([Source("cli/slotreeve_cli/bad.py", text)])) == ["other takes 8 arguments"]


def test_references_that_lead_nowhere_are_found() -> None:
    text = "See `tests/" + "test_no.py`, docs/" + "nowhere.md, decision " + "9999, I" + "99, S" + "998, spec " + "98.7."
    assert len([*references.missing_documents([("a.md", text)])]) == 3
    assert whats(references.unlisted_invariants([("a.md", text)])) == ["names the invariant I99"]
    assert len([*references.unexplained([("a.md", text)])]) == 2


def test_what_counts_as_an_explanation() -> None:
    page = '## 5.4 Leases\n\n| S2 | a row |\n\n- **S85** an item\n\n<a id="s7"></a>\n\nS9 in a sentence\n'
    assert [n for n in ("2", "7", "9", "85", "8") if references.explains_scenario(page, n)] == ["2", "7", "85"]
    assert references.explains_section(page, "5.4")
    assert not references.explains_section(page, "5.4.6")


def test_comments_and_docstrings_are_read_and_other_texts_are_not() -> None:
    text = '"""S1"""\nx = "S2"  # S3\ny = 1  # noqa: S5 - why\n\n\ndef f() -> str:\n    """S4"""\n    return "S5"\n'
    assert references.SCENARIO.findall(Source("a.py", text).prose) == ["1", "3", "4"]


def test_lists_that_differ_and_versions_that_are_written_twice_are_found() -> None:
    project = copy.deepcopy(declarations.pyproject())
    project["tool"]["hatch"]["build"]["dev-mode-dirs"].remove("kernel")
    project["tool"]["mypy"]["files"].append("nowhere")
    project["project"]["version"] = "0.2.0"
    architecture = (ROOT / "docs/architecture.md").read_text().replace("| `events/` |", "| events |")
    assert whats(declarations.other_lists(project, architecture)) == ["lacks kernel", "lists nowhere", "lacks events"]
    assert whats(declarations.second_versions(project)) == ["has a version of its own"]
    assert whats(declarations.odd_pins("# ok\na==1\na>=1\nb @ file:///b==1\n")) == ["has a>=1", "has b @ file:///b==1"]
