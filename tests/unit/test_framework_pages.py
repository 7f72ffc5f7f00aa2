"""What the pages of frameworks show is what `make test-frameworks` runs."""

import pytest

from tests.support.framework_pages import EXAMPLES, FOLDER, ROOT, FrameworkPage, framework_pages

PAGES = framework_pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_example_that_its_command_runs(page: FrameworkPage) -> None:
    example = ROOT / page.command[-1]
    assert example.parent == EXAMPLES
    assert page.code == example.read_text()
    assert len(page.code.splitlines()) <= 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_which_versions_were_tested(page: FrameworkPage) -> None:
    assert all("==" in requirement for requirement in page.requirements)


def test_every_example_has_a_page_and_every_page_a_place_in_the_index() -> None:
    assert {ROOT / page.command[-1] for page in PAGES} == set(EXAMPLES.glob("*.py"))
    index = (FOLDER / "index.md").read_text()
    assert all(f"]({page.name}.md)" in index for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_has_the_same_parts(page: FrameworkPage) -> None:
    text = (FOLDER / f"{page.name}.md").read_text()
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == ["recorded by", "content", "session's id", "attached by"]
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Example", "## What you see", "## Known gaps"]
