-- The six layers at work: working sessions by branch, stamps of cited code, past sessions read, and in the user's own
-- store what was seen in which project.

CREATE TABLE session (                          -- a working session (thread); the newest open one of a branch goes on
    thread         TEXT PRIMARY KEY,
    branch         TEXT NOT NULL DEFAULT '',
    opened_at      REAL NOT NULL,
    closed_at      REAL,                        -- NULL: open
    current_at     REAL NOT NULL DEFAULT 0,     -- when it became its branch's; 0: a caller named it, no branch goes on with it
    active_task    TEXT NOT NULL DEFAULT '',
    active_ticket  TEXT NOT NULL DEFAULT '',
    files_open     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(files_open)),
    last_edit_file TEXT NOT NULL DEFAULT '',
    last_edit_line INTEGER NOT NULL DEFAULT 0,
    conversation_summary TEXT NOT NULL DEFAULT '',
    last_updated   REAL NOT NULL,
    life           TEXT NOT NULL DEFAULT ''     -- process, terminal and boot that worked on it last
) WITHOUT ROWID;
CREATE INDEX session_by_branch ON session (branch, current_at);
CREATE INDEX turn_by_thread ON turn (thread, started_at);
INSERT INTO session (thread, branch, opened_at, current_at, active_task, active_ticket, files_open, last_edit_file, last_edit_line,
                     conversation_summary, last_updated)
    SELECT thread, branch, last_updated, last_updated, active_task, active_ticket, files_open, last_edit_file, last_edit_line,
           conversation_summary, last_updated FROM session_state WHERE thread <> '';
DROP TABLE session_state;
CREATE VIEW session_state AS                    -- the working session that was last at work
    SELECT 1 AS id, (SELECT value FROM meta WHERE key = 'store_id') AS project_id, active_task, active_ticket,
           files_open, last_edit_file, last_edit_line, conversation_summary, last_updated, branch, thread
    FROM session ORDER BY last_updated DESC, opened_at DESC, thread LIMIT 1;

DROP TABLE evidence;                            -- nothing wrote to it before
CREATE TABLE evidence (                         -- code that a memory cites; the same lines of a file count once, wherever they stand
    memory_id  TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    path       TEXT NOT NULL,
    span_hash  TEXT NOT NULL,
    start_line INTEGER NOT NULL,                -- 0: the whole file
    end_line   INTEGER NOT NULL,
    size       INTEGER NOT NULL DEFAULT -1,     -- of the file when the span was last looked at; -1: never
    mtime_ns   INTEGER NOT NULL DEFAULT -1,
    changed    INTEGER NOT NULL DEFAULT 0,      -- 1: the file holds the span no more
    PRIMARY KEY (memory_id, path, span_hash)
) WITHOUT ROWID;
CREATE INDEX evidence_by_path ON evidence (path, size, mtime_ns);
CREATE INDEX evidence_changed ON evidence (memory_id) WHERE changed;

CREATE TRIGGER links_of_gone_memory AFTER DELETE ON memory WHEN OLD.source <> 'index'
BEGIN                                           -- the index removes what its own memories leave behind
    DELETE FROM edge WHERE source = OLD.id OR target = OLD.id;
    DELETE FROM mention WHERE path = '' AND source = OLD.id;
END;

CREATE TABLE session_file (                     -- a file of past sessions that was looked at
    path        TEXT PRIMARY KEY,               -- with ~ for the home folder
    origin      TEXT NOT NULL,                  -- claude-code, codex, aider, cline
    size        INTEGER NOT NULL,
    mtime_ns    INTEGER NOT NULL,
    read_to     INTEGER NOT NULL,               -- bytes that were read to the end of an exchange
    head_hash   TEXT NOT NULL,                  -- of its first bytes: another file at the same path is read anew
    note        TEXT NOT NULL DEFAULT '',       -- why nothing was taken of it; empty: it was read
    state       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(state)),  -- what a reader must know to go on there
    imported_at REAL NOT NULL
) WITHOUT ROWID;

CREATE INDEX memory_by_words ON memory (layer, kind, substr(text, 1, 80)) WHERE source <> 'index';  -- said before?

CREATE TABLE occurrence (                       -- happenings of a failure that were counted, by digest: none counts twice
    id        TEXT PRIMARY KEY,
    memory_id TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    told_by   TEXT NOT NULL DEFAULT ''          -- the exchange it was read in: its erasure takes the count back
) WITHOUT ROWID;
CREATE INDEX occurrence_by_memory ON occurrence (memory_id);

CREATE TABLE repository_map (                   -- what an index held when a snapshot was taken elsewhere, or earlier
    id   TEXT PRIMARY KEY,                      -- g_ and a digest of the body
    body TEXT NOT NULL CHECK (json_valid(body))
) WITHOUT ROWID;

CREATE TABLE forgotten (                        -- ids that were erased and must not come back by an import
    memory_id TEXT PRIMARY KEY,
    at        REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE muted (                            -- keys that are suggested no more
    key TEXT PRIMARY KEY,
    at  REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE project (                          -- in the user's store: repositories that took part, by hashed store id
    id      TEXT PRIMARY KEY,
    seen_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE observation (                      -- in the user's store: what a project says about a key
    project TEXT NOT NULL REFERENCES project (id) ON DELETE CASCADE,
    key     TEXT NOT NULL,
    kind    TEXT NOT NULL,
    value   TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (key, project)
) WITHOUT ROWID;

DROP VIEW project_facts;
CREATE VIEW project_facts AS                    -- a decision is a fact of the project too
    SELECT id, (SELECT value FROM meta WHERE key = 'store_id') AS project_id, kind AS category, key,
           json_object('text', text) AS value_json, importance, created_at, updated_at
    FROM memory WHERE status = 'active' AND (layer = 'project' OR kind = 'decision');
