"""What is a folder, what is the address of a database, and what is neither: no password becomes the name of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.cli.main import demaq, run
from demaq.errors import StoreError
from demaq.store.address import Address, is_address
from demaq.store.location import place_of
from demaq.store.opening import open_store

SECRET = "s3cret"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "Postgresql", "POSTGRES", "PostgreSQL", " postgresql"])
def test_an_address_is_known_in_any_letters(scheme: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    text = f"{scheme}://joe:{SECRET}@db.example:5433/shop"

    assert is_address(text)
    place = place_of(text)
    assert place.is_on_server
    assert str(place) == str(Address(text)) == "postgresql://joe@db.example:5433/shop"
    assert SECRET not in str(place.folder)


@pytest.mark.parametrize(
    "text",
    [
        f"mysql://joe:{SECRET}@db/shop",
        f"postgresq://joe:{SECRET}@db/shop",
        f"sqlite:///{SECRET}",
        f"postgresql:/joe:{SECRET}@db/shop",
        f"://{SECRET}",
        f"./postgresql://joe:{SECRET}@db/shop",
        f"host=db user=joe password={SECRET}",
        f"host=db password = {SECRET} nonsense=1",
        Path(f"postgresql://joe:{SECRET}@db/shop"),
    ],
)
def test_what_looks_like_an_address_is_never_a_folder_and_its_password_is_not_shown(
    text: str | Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.dmq").write_text("create queue q")
    for opening in (is_address, place_of, open_store):
        with pytest.raises(StoreError, match=r"postgresql://user@host:5432/database") as refused:
            opening(text)
        assert SECRET not in str(refused.value)
    for command in (["messages", "q"], ["run", "app.dmq"], ["send", "q", "app.dmq"]):
        assert run(demaq, [*command, "--store", str(text)]) in (1, 2)
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert [path.name for path in tmp_path.iterdir()] == ["app.dmq"]


@pytest.mark.parametrize("text", ["store", "/a/b", "a=b", "C:", "c:/x", "store:2026", "über uns", ".", "mode=fast/x"])
def test_other_names_are_those_of_folders(text: str):
    assert not is_address(text)
    assert not is_address(Path(text))
