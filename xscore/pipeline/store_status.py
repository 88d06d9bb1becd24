"""What a store holds, with what was spent: for `xscore status`, which loads no pipeline."""

from xscore.costs import ledger
from xscore.platform.paths import user_data_dir
from xscore.records.reports import StoreStatus
from xscore.settings import Settings
from xscore.store import opening
from xscore.store.store import Store


def read_store_status(store: Store, settings: Settings) -> StoreStatus:
    """Count what the store holds."""
    trusted = opening.is_trusted(store.root.store_dir, user_data_dir=user_data_dir(settings.store.user_data_dir))
    usd, estimated = ledger.total_spent(store.connection), ledger.is_estimated(store.connection)
    return store.status(trusted=trusted, spent_usd=usd, spent_estimated=estimated)
