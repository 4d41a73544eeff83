"""The generated parts of `docs/` match the code, and every link leads to an existing page and heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.document import PAGES, PART, PARTS, ROOT, generated
from tools.tested_with import pinned

DOCUMENTS = [*ROOT.glob("*.md"), *PAGES]
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([\w-]+))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_of_the_docs_match_the_code(page: Path):
    assert page.read_text() == generated(page.read_text()), "run: python -m tools.document"


def test_every_generated_part_is_on_one_page():
    found = [name for page in PAGES for _, name, _ in PART.findall(page.read_text())]
    assert sorted(found) == sorted(PARTS)


def test_a_version_of_a_tested_client_must_be_exact(tmp_path: Path):
    package = tmp_path / "package.json"
    package.write_text('{"dependencies": {"kafkajs": "^2.2.4"}}')
    with pytest.raises(ValueError, match="no exact version of kafkajs"):
        pinned(package, "kafkajs")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(document: Path):
    broken = []
    for path, anchor in LINK.findall(document.read_text()):
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append((path, anchor))
    assert broken == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
