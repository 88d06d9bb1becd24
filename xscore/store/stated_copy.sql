-- The schema of a copy of what was stated in one store; a store's own tables may change without it.

CREATE TABLE meta (                             -- `store`: the real path of the store that was copied
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE stated (
    id    TEXT PRIMARY KEY,                     -- of the memory
    title TEXT NOT NULL,                        -- in columns, as it was said: an erasure searches the bytes for it
    text  TEXT NOT NULL,
    card  TEXT NOT NULL,
    rest  TEXT NOT NULL CHECK (json_valid(rest)) -- `stated_rows.StatedMemory` without those three
) WITHOUT ROWID;

CREATE TABLE erased (                           -- what no import brings back
    memory_id TEXT PRIMARY KEY,
    at        REAL NOT NULL
) WITHOUT ROWID;
