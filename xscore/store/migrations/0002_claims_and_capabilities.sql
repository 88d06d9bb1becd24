-- Who is judging what just now, what hosts were found to do and to count, and a seal on each judgment.

CREATE TABLE runner (                           -- a process at work on this store; its claims go with it
    id      TEXT PRIMARY KEY,
    pid     INTEGER NOT NULL,
    place   TEXT NOT NULL,                      -- host and process namespace: only there does the pid mean anything
    seen_at REAL NOT NULL                       -- unix seconds of its latest sign of life
) WITHOUT ROWID;

CREATE TABLE claim (                            -- contents that a runner is paying for; gone when judged or given up
    query_id INTEGER NOT NULL,
    content  TEXT NOT NULL,                     -- content hash
    runner   TEXT NOT NULL,                     -- no foreign key and no index: these rows are few, and come and go with each pack
    PRIMARY KEY (query_id, content)
) WITHOUT ROWID;

CREATE TABLE capability (                       -- what a host does with a model, found out once
    provider TEXT NOT NULL,
    host     TEXT NOT NULL,
    model    TEXT NOT NULL,
    body     TEXT NOT NULL CHECK (json_valid(body)),
    at       REAL NOT NULL,
    PRIMARY KEY (provider, host, model)
) WITHOUT ROWID;

DROP TABLE chars_per_token;                     -- was by model alone; a few calls teach it again
CREATE TABLE chars_per_token (                  -- learned from usage that can be believed; old calls fade
    provider TEXT NOT NULL,
    host     TEXT NOT NULL,
    model    TEXT NOT NULL,
    chars    REAL NOT NULL,
    tokens   REAL NOT NULL CHECK (tokens > 0),
    PRIMARY KEY (provider, host, model)
) WITHOUT ROWID;

ALTER TABLE judgment ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;  -- `hashing.judgment_seal`; a row it does not fit is damaged
UPDATE judgment SET seal = judgment_seal(turn_seal(turn_key, judge, sample), hash, score, prior, pack, position)
    FROM query, content WHERE query.id = query_id AND content.id = content_id;
