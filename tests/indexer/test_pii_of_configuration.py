"""Personal data in configuration stay out of the index unless a setting allows them (P03)."""

from pathlib import Path

from tests.conftest import MakeRepo
from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.file_bodies import read_with_bodies
from xscore.store.store import Store

ADDRESS = "jane" + "@" + "corp-x.io"


def test_configuration_is_screened_and_documents_are_not(make_repo: MakeRepo, tmp_path: Path) -> None:
    """P03: a config file loses the address, a document keeps it; changing the setting reads the file again."""
    root = make_repo({"app.toml": f'[owner]\nmail = "{ADDRESS}"\n', "README.md": f"# Who\n\nAsk {ADDRESS}.\n"})
    with Store.open(find_root(root), user_data_dir=tmp_path / "user") as store:
        for allowed in (False, True, False):
            index_repository(store.connection, store.root, IndexSettings(), now=1.0, allow_pii=allowed)
            found = {path: text for path, *_, text in read_with_bodies(store.connection, "path", "true")}
            assert (ADDRESS in found["app.toml"], "<PII:email>" in found["app.toml"]) == (allowed, not allowed)
            assert ADDRESS in found["README.md"]
