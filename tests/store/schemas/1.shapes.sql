-- The shapes that schema 1 had before the one in `1.sql`, newest first. Each section takes a store of the shape after it
-- back by one change; indexes and triggers that no test needs are left out.

-- shape: texts are not compressed
DROP TRIGGER content_of_new_memory; DROP TRIGGER content_of_gone_memory; DROP TRIGGER content_of_changed_memory;
DROP TRIGGER links_of_gone_memory; DROP TRIGGER edges_of_gone_end;
DROP VIEW user_preferences; DROP VIEW user_patterns; DROP VIEW vector_chunks; DROP VIEW nodes; DROP VIEW decisions;
DROP VIEW project_facts; DROP VIEW session_state;
CREATE TABLE former_memory (
    id             TEXT PRIMARY KEY,
    layer          TEXT NOT NULL CHECK (layer IN ('session', 'project', 'user', 'vector', 'graph', 'governance')),
    kind           TEXT NOT NULL,
    scope          TEXT NOT NULL CHECK (scope IN ('global', 'session', 'workspace', 'repository')),
    status         TEXT NOT NULL CHECK (status IN ('active', 'stale', 'superseded', 'archived')),
    path           TEXT NOT NULL DEFAULT '',
    entity         TEXT NOT NULL DEFAULT '',
    start_line     INTEGER NOT NULL DEFAULT 0,
    end_line       INTEGER NOT NULL DEFAULT 0,
    language       TEXT NOT NULL DEFAULT '',
    content_hash   TEXT NOT NULL,
    text_hash      TEXT NOT NULL,
    tokens         INTEGER NOT NULL,
    text_tokens    INTEGER NOT NULL,
    updated_at     REAL NOT NULL,
    importance     REAL NOT NULL CHECK (importance BETWEEN 0 AND 1),
    confidence     REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    thread         TEXT NOT NULL DEFAULT '',
    key            TEXT NOT NULL DEFAULT '',
    evidence_count INTEGER NOT NULL DEFAULT 1,
    source         TEXT NOT NULL CHECK (source IN ('explicit', 'inferred', 'index', 'import')),
    superseded_by  TEXT NOT NULL DEFAULT '',
    created_at     REAL NOT NULL,
    accessed_at    REAL NOT NULL DEFAULT 0,
    access_count   INTEGER NOT NULL DEFAULT 0,
    title          TEXT NOT NULL,
    attrs          TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(attrs)),
    card           TEXT NOT NULL DEFAULT '',
    text           TEXT NOT NULL
);
INSERT INTO former_memory
    SELECT id, layer, kind, scope, status, path, entity, start_line, end_line, language, content_hash, text_hash, tokens,
        text_tokens, updated_at, importance, confidence, thread, key, evidence_count, source, superseded_by, created_at,
        accessed_at, access_count, title, attrs, card, coalesce(text, '') FROM memory;
INSERT INTO vec SELECT id, 'terms-1', x'00' FROM memory;
CREATE TABLE former_edge (
    source   TEXT NOT NULL,
    target   TEXT NOT NULL,
    relation TEXT NOT NULL CHECK (relation IN ('calls', 'imports', 'tests', 'belongs_to', 'references')),
    weight   REAL NOT NULL DEFAULT 1,
    path     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (source, relation, target)
) WITHOUT ROWID;
INSERT INTO former_edge SELECT source, target, relation, weight, path FROM edge;
DROP VIEW edge; DROP TABLE edge_row; DROP TABLE edge_end;
DROP TABLE memory;
ALTER TABLE former_memory RENAME TO memory;
ALTER TABLE former_edge RENAME TO edge;
CREATE INDEX memory_by_path ON memory (path, entity);
CREATE INDEX edge_by_target ON edge (target, relation);
CREATE TRIGGER links_of_gone_memory AFTER DELETE ON memory WHEN OLD.source <> 'index'
BEGIN
    DELETE FROM edge WHERE source = OLD.id OR target = OLD.id;
    DELETE FROM mention WHERE source = OLD.id;
END;
DROP TABLE file_body; DROP TABLE mentioned_name; DROP TABLE file_mention;
CREATE TABLE file_mention (
    path    TEXT PRIMARY KEY,
    imports TEXT NOT NULL CHECK (json_valid(imports)),
    bases   TEXT NOT NULL CHECK (json_valid(bases)),
    uses    TEXT NOT NULL CHECK (json_valid(uses)),
    names   TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO file_mention VALUES ('heron.py', '[]', '{}', '{}', 'nest');
ALTER TABLE job_question ADD COLUMN candidates INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_question ADD COLUMN cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE batch ADD COLUMN file_id TEXT NOT NULL DEFAULT '';
ALTER TABLE batch ADD COLUMN created_at REAL;
CREATE VIEW decisions AS SELECT id, coalesce(json_extract(attrs, '$.author'), source) AS created_by FROM memory;

-- shape: names in files are rows
DROP TRIGGER links_of_gone_memory;
DROP TABLE file_mention;
CREATE TABLE former_mention (
    path     TEXT NOT NULL,
    source   TEXT NOT NULL,
    relation TEXT NOT NULL,
    name     TEXT NOT NULL,
    hint     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (path, source, relation, name, hint)
) WITHOUT ROWID;
INSERT INTO former_mention SELECT '', source, relation, name, hint FROM mention;
INSERT INTO former_mention SELECT path, id, 'calls', 'lay', 'heron' FROM memory WHERE source = 'index';
DROP TABLE mention;
ALTER TABLE former_mention RENAME TO mention;
CREATE INDEX mention_by_name ON mention (name);
CREATE TRIGGER links_of_gone_memory AFTER DELETE ON memory WHEN OLD.source <> 'index'
BEGIN
    DELETE FROM edge WHERE source = OLD.id OR target = OLD.id;
    DELETE FROM mention WHERE path = '' AND source = OLD.id;
END;

-- shape: no turn is continued
CREATE TABLE former_turn (
    id         TEXT PRIMARY KEY,
    thread     TEXT NOT NULL,
    turn_key   TEXT NOT NULL,
    judge      TEXT NOT NULL DEFAULT '',
    task       TEXT NOT NULL,
    context    TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(context)),
    started_at REAL NOT NULL,
    answer     TEXT NOT NULL DEFAULT '',
    state      TEXT NOT NULL CHECK (state IN ('running', 'done', 'partial', 'failed', 'interrupted'))
) WITHOUT ROWID;
INSERT INTO former_turn SELECT * FROM turn;
DROP TABLE turn;
ALTER TABLE former_turn RENAME TO turn;
CREATE INDEX turn_by_time ON turn (started_at);

-- shape: decisions have no author
DROP VIEW decisions;
CREATE VIEW decisions AS SELECT id, source AS created_by FROM memory;

-- shape: session logs are read on where they ended
DROP TABLE session_file;
CREATE TABLE session_file (
    path        TEXT PRIMARY KEY,
    origin      TEXT NOT NULL,
    size        INTEGER NOT NULL,
    mtime_ns    INTEGER NOT NULL,
    read_to     INTEGER NOT NULL,
    head_hash   TEXT NOT NULL,
    note        TEXT NOT NULL DEFAULT '',
    state       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(state)),
    imported_at REAL NOT NULL
) WITHOUT ROWID;
INSERT INTO session_file VALUES ('~/s.jsonl', 'codex', 9, 9, 9, 'h', '', '{}', 1.0);
