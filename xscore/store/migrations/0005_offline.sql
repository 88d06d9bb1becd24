-- Lists of questions that are judged offline, through vendors' Batch APIs; judgments from elsewhere that nobody vouches for.

ALTER TABLE call ADD COLUMN batch TEXT NOT NULL DEFAULT '';      -- of an answer that came by a Batch API: its mark; empty: live
ALTER TABLE call ADD COLUMN cost_live INTEGER;                  -- picodollars that the same call would have cost live; NULL is not known

CREATE TABLE job (                              -- a list of questions, judged offline
    id           TEXT PRIMARY KEY,              -- b_…
    created_at   REAL NOT NULL,
    command      TEXT NOT NULL CHECK (command IN ('submit', 'run', 'rescore')),
    questions    TEXT NOT NULL,                 -- digest of the list
    judge_spec   TEXT NOT NULL,                 -- provider:model
    judge        TEXT NOT NULL,                 -- judge key
    plan         TEXT NOT NULL CHECK (json_valid(plan)),  -- what every request needs beside its question and memories
    seal         INTEGER NOT NULL,              -- `hashing.seal` over id, judge and plan: a changed byte would deal other ids
    max_usd      INTEGER,                       -- picodollars; NULL is no cap of its own
    candidates   INTEGER NOT NULL,              -- over all questions, when it was planned
    cached       INTEGER NOT NULL,              -- of these, what the cache had
    ended_at     REAL,                          -- nothing is left to send or to fetch; NULL: under way
    runner       TEXT NOT NULL DEFAULT '',      -- of table runner: who takes it further just now
    stopped_at   REAL                           -- the user wants nothing more of it sent; what is at the vendor is still fetched
) WITHOUT ROWID;
CREATE INDEX job_by_time ON job (created_at);

CREATE TABLE job_question (
    job        TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,                -- from 0, as in the list
    name       TEXT NOT NULL,                   -- its id in the list
    moment     TEXT NOT NULL CHECK (json_valid(moment)),  -- task, errors, file, as they were judged: redacted
    turn_key   TEXT NOT NULL,
    seal       INTEGER NOT NULL,                -- over job, number, moment and turn key
    candidates INTEGER NOT NULL,
    cached     INTEGER NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE job_ask (                          -- a prompt but for its question; stands once for all questions that share it
    job     TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    pack    TEXT NOT NULL,                      -- names the prompt: deals its ids
    rung    INTEGER NOT NULL,                   -- of the repair ladder
    is_kept INTEGER NOT NULL,
    pieces  TEXT NOT NULL CHECK (json_valid(pieces)),  -- in their order: content hash, of a part also memory's hash and parts
    seal    INTEGER NOT NULL,                   -- over job, number, pack and pieces
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE job_request (                      -- a question to an ask
    job      TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    question INTEGER NOT NULL,
    ask      INTEGER NOT NULL,
    batch    INTEGER NOT NULL DEFAULT 0,        -- the batch it went with; 0: none yet
    state    TEXT NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'sent', 'answered', 'lost')),
    cause    TEXT NOT NULL DEFAULT '',          -- of a lost one
    tries    INTEGER NOT NULL DEFAULT 0,        -- how often it went with a batch
    PRIMARY KEY (job, question, ask)
) WITHOUT ROWID;
CREATE INDEX job_request_by_batch ON job_request (job, batch);

CREATE TABLE batch (                            -- a batch at a vendor; its row is there before the vendor has heard of it
    job        TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,                -- from 1
    mark       TEXT NOT NULL UNIQUE,            -- our name for it: told to the vendor, and the beginning of every custom_id
    state      TEXT NOT NULL CHECK (state IN ('marked', 'created', 'ended', 'collected', 'failed')),
    marked_at  REAL NOT NULL,                   -- before anything was sent
    file_id    TEXT NOT NULL DEFAULT '',        -- of the uploaded input, where the vendor has files
    vendor_id  TEXT NOT NULL DEFAULT '',
    created_at REAL,                            -- once the vendor has told its id
    status     TEXT NOT NULL DEFAULT '',        -- the vendor's word, as last seen
    seen_at    REAL,                            -- when that was
    requests   INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,              -- our estimate, against the vendor's limit of enqueued tokens
    problem    TEXT NOT NULL DEFAULT '',        -- what went wrong, in words
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE hearsay (                          -- judgments of an import that nobody vouches for: they order work, they never score
    turn_key TEXT NOT NULL,
    judge    TEXT NOT NULL,
    sample   INTEGER NOT NULL DEFAULT 0,
    hash     TEXT NOT NULL,                     -- of the content
    score    REAL NOT NULL CHECK (score BETWEEN 0 AND 1),
    PRIMARY KEY (turn_key, judge, sample, hash)
) WITHOUT ROWID;
