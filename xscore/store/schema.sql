-- The schema of a store: of a repository's and of the user's own.
-- Times are Unix seconds (REAL); hashes are blake2b-128 in hex unless a comment says otherwise.

-- Index and memories

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE worktree (                         -- a working tree of the repository
    number INTEGER PRIMARY KEY AUTOINCREMENT,   -- from 1, never reused; 0 in other tables: of no worktree
    name   TEXT NOT NULL UNIQUE                 -- git's name of a linked one; empty: the main one, or a plain folder
);

CREATE TABLE worktree_meta (                    -- what the index of a worktree knows of itself, and who works there
    worktree INTEGER NOT NULL,
    key      TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (worktree, key)
) WITHOUT ROWID;

CREATE TABLE file_row (                         -- the files of each worktree
    worktree   INTEGER NOT NULL,
    path       TEXT NOT NULL,
    size       INTEGER NOT NULL,
    mtime_ns   INTEGER NOT NULL,
    file_hash  TEXT NOT NULL,
    language   TEXT NOT NULL DEFAULT '',
    excluded   TEXT NOT NULL DEFAULT '',        -- why its content is not indexed; empty: it is indexed
    version    INTEGER NOT NULL DEFAULT 0,      -- of `file_version`; 0: it is not indexed
    PRIMARY KEY (worktree, path)
) WITHOUT ROWID;
CREATE INDEX file_by_version ON file_row (version, worktree);

CREATE TABLE file_version (                     -- what parsing a file of these bytes gave, for all worktrees that have it
    number    INTEGER PRIMARY KEY,
    path      TEXT NOT NULL,
    file_hash TEXT NOT NULL,
    rules     TEXT NOT NULL,                    -- a short digest of the rules and settings by which it was parsed
    language  TEXT NOT NULL DEFAULT '',
    mentions  BLOB NOT NULL,                    -- names that may resolve to entities of other files (`encoded_files`)
    body      BLOB NOT NULL,                    -- attrs, card and text of its memories, compressed (`file_bodies`)
    UNIQUE (path, file_hash, rules)
);

CREATE TABLE mentioned_name (                   -- which files mention a name
    name_crc INTEGER NOT NULL,                  -- CRC-32 of the name
    version  INTEGER NOT NULL,                  -- of `file_version`
    PRIMARY KEY (name_crc, version)
) WITHOUT ROWID;

CREATE TABLE memory_row (                       -- stated memories, and those of each version of a file
    number         INTEGER PRIMARY KEY,         -- names the row in `memory_view`
    id             TEXT NOT NULL,
    version        INTEGER NOT NULL DEFAULT 0,  -- of `file_version`; 0: stated, so that every worktree has it
    layer          TEXT NOT NULL CHECK (layer IN ('session', 'project', 'user', 'vector', 'graph', 'governance')),
    kind           TEXT NOT NULL,
    scope          TEXT NOT NULL CHECK (scope IN ('global', 'session', 'workspace', 'repository')),
    status         TEXT NOT NULL CHECK (status IN ('active', 'stale', 'superseded', 'archived')),
    origin         TEXT NOT NULL DEFAULT 'file',  -- `records.memory.MemoryOrigin`
    place          TEXT NOT NULL DEFAULT '',    -- where it is in an origin that is no file here
    path           TEXT NOT NULL DEFAULT '',    -- of a file here; empty: it has another origin
    entity         TEXT NOT NULL DEFAULT '',
    start_line     INTEGER NOT NULL DEFAULT 0,
    end_line       INTEGER NOT NULL DEFAULT 0,
    language       TEXT NOT NULL DEFAULT '',
    updated_at     REAL NOT NULL,
    importance     REAL NOT NULL CHECK (importance BETWEEN 0 AND 1),
    confidence     REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    thread         TEXT NOT NULL DEFAULT '',    -- the working session an exchange belongs to
    name_crc       INTEGER NOT NULL DEFAULT 0,  -- CRC-32 of the last part of an entity's name
    overrides      INTEGER NOT NULL DEFAULT 0,  -- 1: a method that says it overrides another
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
    text           TEXT,                        -- NULL: attrs, card and text are in `file_version`
    terms          BLOB NOT NULL DEFAULT x'',   -- a sparse feature hash of the words (`term_vectors`)
    UNIQUE (id, version)
);
CREATE INDEX memory_by_layer ON memory_row (layer, status, kind, version);
CREATE INDEX memory_by_path ON memory_row (path, entity);
CREATE INDEX memory_by_name ON memory_row (name_crc) WHERE layer = 'graph';
CREATE UNIQUE INDEX memory_one_active_by_key ON memory_row (layer, scope, key)
    WHERE status = 'active' AND key <> '' AND version = 0;
CREATE TRIGGER views_of_gone_memory AFTER DELETE ON memory_row
BEGIN
    DELETE FROM memory_view WHERE memory = OLD.number;
END;
CREATE TRIGGER links_of_gone_memory AFTER DELETE ON memory_row
WHEN NOT EXISTS (SELECT 1 FROM memory_row WHERE id = OLD.id)
BEGIN
    DELETE FROM edge_end WHERE id = OLD.id;
    DELETE FROM mention WHERE source = OLD.id;
END;
CREATE TRIGGER particulars_of_gone_memory AFTER DELETE ON memory_row WHEN OLD.version = 0
BEGIN
    DELETE FROM evidence WHERE memory_id = OLD.id;
    DELETE FROM stale_memory WHERE memory_id = OLD.id;
    DELETE FROM occurrence WHERE memory_id = OLD.id;
END;
CREATE TRIGGER staleness_of_changed_memory AFTER UPDATE OF status ON memory_row
WHEN NEW.version = 0 AND NEW.status <> OLD.status
BEGIN
    DELETE FROM stale_memory WHERE memory_id = NEW.id;
END;
CREATE INDEX memory_by_words ON memory_row (layer, kind, substr(text, 1, 80)) WHERE source <> 'index';

CREATE TABLE memory_view (                      -- what identifies each text of a memory that a judge may be shown
    memory   INTEGER NOT NULL,                  -- the number of its row
    view     TEXT NOT NULL,                     -- `records.memory.ViewName`; every memory has `whole`
    worktree INTEGER NOT NULL DEFAULT 0,        -- of a stated memory that is stale there; else 0
    hash     TEXT NOT NULL,                     -- content hash
    tokens   INTEGER NOT NULL,                  -- estimated
    PRIMARY KEY (memory, view, worktree)
) WITHOUT ROWID;
CREATE INDEX view_by_text ON memory_view (hash) WHERE view = 'whole' AND worktree = 0;
CREATE TRIGGER content_of_new_view AFTER INSERT ON memory_view
BEGIN
    INSERT INTO content (hash, memories) VALUES (NEW.hash, 1)
        ON CONFLICT (hash) DO UPDATE SET memories = memories + 1;
END;
CREATE TRIGGER content_of_gone_view AFTER DELETE ON memory_view
BEGIN
    UPDATE content SET memories = memories - 1 WHERE hash = OLD.hash;
END;
CREATE TRIGGER content_of_changed_view AFTER UPDATE OF hash ON memory_view WHEN OLD.hash <> NEW.hash
BEGIN
    UPDATE content SET memories = memories - 1 WHERE hash = OLD.hash;
    INSERT INTO content (hash, memories) VALUES (NEW.hash, 1)
        ON CONFLICT (hash) DO UPDATE SET memories = memories + 1;
END;
CREATE TRIGGER staleness_of_changed_view AFTER UPDATE OF hash ON memory_view
WHEN NEW.worktree = 0 AND OLD.hash <> NEW.hash
BEGIN
    DELETE FROM stale_memory WHERE memory_id = (SELECT id FROM memory_row WHERE number = NEW.memory AND version = 0);
END;

CREATE TABLE version_pool (                     -- what a turn reads of the memories of a version (`packed_pool`)
    number     INTEGER PRIMARY KEY,             -- 2 × the number of the version, 1 more for its vector layer
    updated_at REAL NOT NULL,
    identities BLOB NOT NULL,                   -- id and content hash of each, and their CRC-32
    kinds      TEXT NOT NULL,                   -- a letter for each
    entities   TEXT NOT NULL,
    languages  TEXT NOT NULL,                   -- one for all, or of each
    numbers    BLOB NOT NULL,                   -- lines, tokens and terms of each
    terms      BLOB NOT NULL
);

CREATE TABLE unpacked_version (                 -- versions that are not packed; maintained by triggers
    version  INTEGER PRIMARY KEY,
    is_tried INTEGER NOT NULL DEFAULT 0         -- 1: some of its memories fit into no pack
);
CREATE TRIGGER pack_of_unpacked_version AFTER INSERT ON unpacked_version
BEGIN
    DELETE FROM version_pool WHERE number IN (2 * NEW.version, 2 * NEW.version + 1);
END;
CREATE TRIGGER pack_of_new_version AFTER INSERT ON file_version
BEGIN
    INSERT INTO unpacked_version (version) VALUES (NEW.number) ON CONFLICT (version) DO UPDATE SET is_tried = 0;
END;
CREATE TRIGGER pack_of_gone_version AFTER DELETE ON file_version
BEGIN
    DELETE FROM version_pool WHERE number IN (2 * OLD.number, 2 * OLD.number + 1);
    DELETE FROM unpacked_version WHERE version = OLD.number;
END;
CREATE TRIGGER pack_of_new_memory AFTER INSERT ON memory_row WHEN NEW.version > 0
BEGIN
    INSERT INTO unpacked_version (version) VALUES (NEW.version) ON CONFLICT (version) DO UPDATE SET is_tried = 0;
END;
CREATE TRIGGER pack_of_changed_memory
AFTER UPDATE OF id, version, layer, kind, status, path, entity, start_line, end_line, language, updated_at, terms
ON memory_row WHEN OLD.version > 0 OR NEW.version > 0
BEGIN
    INSERT INTO unpacked_version (version) VALUES (OLD.version) ON CONFLICT (version) DO UPDATE SET is_tried = 0;
    INSERT INTO unpacked_version (version) VALUES (NEW.version) ON CONFLICT (version) DO UPDATE SET is_tried = 0;
END;
CREATE TRIGGER pack_of_gone_memory AFTER DELETE ON memory_row WHEN OLD.version > 0
BEGIN
    INSERT INTO unpacked_version (version) VALUES (OLD.version) ON CONFLICT (version) DO UPDATE SET is_tried = 0;
END;
CREATE TRIGGER pack_of_new_view AFTER INSERT ON memory_view
BEGIN
    INSERT INTO unpacked_version (version) SELECT version FROM memory_row WHERE number = NEW.memory AND version > 0
        ON CONFLICT (version) DO UPDATE SET is_tried = 0;
END;
CREATE TRIGGER pack_of_changed_view AFTER UPDATE ON memory_view
BEGIN
    INSERT INTO unpacked_version (version) SELECT version FROM memory_row WHERE number = NEW.memory AND version > 0
        ON CONFLICT (version) DO UPDATE SET is_tried = 0;
END;
CREATE TRIGGER pack_of_gone_view AFTER DELETE ON memory_view
BEGIN
    INSERT INTO unpacked_version (version) SELECT version FROM memory_row WHERE number = OLD.memory AND version > 0
        ON CONFLICT (version) DO UPDATE SET is_tried = 0;
END;

CREATE TABLE content (                          -- content hash -> integer; kept while a memory or judgment uses it
    id       INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused, so a judgment cannot move to another content
    hash     TEXT NOT NULL UNIQUE,
    memories INTEGER NOT NULL DEFAULT 0 CHECK (memories >= 0)  -- how many views show it; maintained by triggers
);

CREATE TRIGGER vectors_of_gone_content AFTER UPDATE OF memories ON content WHEN NEW.memories = 0
BEGIN
    DELETE FROM vec WHERE text_hash = NEW.hash;
END;

CREATE TABLE evidence (                         -- code that a memory cites; equal lines of a file count once
    memory_id  TEXT NOT NULL,
    path       TEXT NOT NULL,
    span_hash  TEXT NOT NULL,
    start_line INTEGER NOT NULL,                -- as cited; 0: the whole file
    end_line   INTEGER NOT NULL,
    changed    INTEGER NOT NULL DEFAULT 0,      -- 1: the file did not contain the span where it was stated
    PRIMARY KEY (memory_id, path, span_hash)
) WITHOUT ROWID;
CREATE INDEX evidence_by_path ON evidence (path);
CREATE TRIGGER state_of_gone_evidence AFTER DELETE ON evidence
BEGIN
    DELETE FROM evidence_state
        WHERE memory_id = OLD.memory_id AND path = OLD.path AND span_hash = OLD.span_hash;
END;

CREATE TABLE evidence_state (                   -- what a worktree has of the cited code
    memory_id  TEXT NOT NULL,
    path       TEXT NOT NULL,
    span_hash  TEXT NOT NULL,
    worktree   INTEGER NOT NULL,
    start_line INTEGER NOT NULL,                -- where the span is now, or last was
    end_line   INTEGER NOT NULL,
    size       INTEGER NOT NULL,                -- of the file when the span was last checked
    mtime_ns   INTEGER NOT NULL,
    changed    INTEGER NOT NULL,                -- 1: the file no longer contains the span
    PRIMARY KEY (memory_id, path, span_hash, worktree)
) WITHOUT ROWID;
CREATE INDEX evidence_changed ON evidence_state (worktree, memory_id) WHERE changed;

CREATE TABLE stale_memory (                     -- memories that cite code which has changed in a worktree
    memory_id TEXT NOT NULL,
    worktree  INTEGER NOT NULL,
    PRIMARY KEY (memory_id, worktree)
) WITHOUT ROWID;
CREATE INDEX stale_by_worktree ON stale_memory (worktree);
CREATE TRIGGER views_of_mended_memory AFTER DELETE ON stale_memory
BEGIN
    DELETE FROM memory_view WHERE worktree = OLD.worktree
        AND memory = (SELECT number FROM memory_row WHERE id = OLD.memory_id AND version = 0);
END;

CREATE TABLE edge_end (                         -- memory ids (m_) and file ids (f_) -> integer
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE
);
CREATE TRIGGER edges_of_gone_end AFTER DELETE ON edge_end
BEGIN
    DELETE FROM edge_row WHERE source = OLD.number;
    DELETE FROM edge_row WHERE target = OLD.number;
END;

CREATE TABLE edge_row (                         -- read it through the view `edge`, write it with `link_rows`
    source   INTEGER NOT NULL,                  -- of `edge_end`, as are target and file
    target   INTEGER NOT NULL,
    relation TEXT NOT NULL CHECK (relation IN ('calls', 'imports', 'tests', 'belongs_to', 'references')),
    weight   REAL NOT NULL DEFAULT 1,
    file     INTEGER NOT NULL DEFAULT 0,        -- the file that states the edge, or 0; re-indexing it replaces its edges
    worktree INTEGER NOT NULL,                  -- 0: between stated memories, in every worktree
    PRIMARY KEY (source, relation, target, worktree)  -- worktree last: where it came first, SQLite read all of its edges
) WITHOUT ROWID;
CREATE INDEX edge_by_target ON edge_row (target, relation);
CREATE INDEX edge_by_file ON edge_row (file);

CREATE TABLE mention (                          -- names in stated memories that may resolve to entities
    source   TEXT NOT NULL,
    relation TEXT NOT NULL,
    name     TEXT NOT NULL,
    hint     TEXT NOT NULL DEFAULT '',          -- `path::entity`, `::entity`, a path or a memory id
    PRIMARY KEY (source, relation, name, hint)
) WITHOUT ROWID;
CREATE INDEX mention_by_name ON mention (name);

CREATE TABLE vec (                              -- vectors of paid embedders, by what was embedded
    number    INTEGER PRIMARY KEY,
    text_hash TEXT NOT NULL,
    embedder  TEXT NOT NULL,
    data      BLOB NOT NULL,                    -- float16, little-endian
    UNIQUE (text_hash, embedder)
);
CREATE INDEX vec_by_embedder ON vec (embedder, text_hash);

CREATE TABLE sign_block (                       -- signs of many vectors side by side (`sign_blocks`)
    block      INTEGER NOT NULL,                -- the numbers of its vectors / 256
    embedder   TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    signs      BLOB NOT NULL,                   -- of each vector: 384 bits, then its number
    PRIMARY KEY (block, embedder, dimensions)
);
CREATE TRIGGER signs_of_new_vector AFTER INSERT ON vec
BEGIN
    DELETE FROM sign_block WHERE block = NEW.number / 256;
END;
CREATE TRIGGER signs_of_gone_vector AFTER DELETE ON vec
BEGIN
    DELETE FROM sign_block WHERE block = OLD.number / 256;
END;

CREATE TABLE complete_embedder (                -- embedders that have a vector of every text; maintained by triggers
    embedder TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TRIGGER vectors_of_new_view AFTER INSERT ON memory_view WHEN NEW.view = 'whole'
BEGIN
    DELETE FROM complete_embedder;
END;
CREATE TRIGGER vectors_of_changed_view AFTER UPDATE ON memory_view WHEN NEW.view = 'whole'
BEGIN
    DELETE FROM complete_embedder;
END;
CREATE TRIGGER vectors_of_changed_status AFTER UPDATE OF status ON memory_row
BEGIN
    DELETE FROM complete_embedder;
END;
CREATE TRIGGER vectors_of_gone_vector AFTER DELETE ON vec
BEGIN
    DELETE FROM complete_embedder;
END;

CREATE TABLE vector_copy (                      -- vectors that a server of the user's searches (`vector_copies`)
    text_hash TEXT NOT NULL,
    embedder  TEXT NOT NULL,
    server    TEXT NOT NULL,
    is_there  INTEGER NOT NULL DEFAULT 0,       -- 1: the server has said so; 0: it may have it
    is_gone   INTEGER NOT NULL DEFAULT 0,       -- 1: its vector is gone here, and the server has yet to erase it
    PRIMARY KEY (text_hash, embedder, server)
) WITHOUT ROWID;
CREATE INDEX copies_of_gone_vectors ON vector_copy (server) WHERE is_gone;
CREATE TRIGGER copy_of_gone_vector AFTER DELETE ON vec
BEGIN
    UPDATE vector_copy SET is_gone = 1 WHERE text_hash = OLD.text_hash AND embedder = OLD.embedder;
END;
CREATE TRIGGER copy_of_new_vector AFTER INSERT ON vec
BEGIN
    UPDATE vector_copy SET is_gone = 0, is_there = 0 WHERE text_hash = NEW.text_hash AND embedder = NEW.embedder;
END;

CREATE TABLE pack_slot (                        -- the pack that a memory is judged in; kept so that packs stay byte-stable
    worktree  INTEGER NOT NULL,
    profile   TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    pack      TEXT NOT NULL,
    position  INTEGER NOT NULL,
    PRIMARY KEY (worktree, profile, memory_id)
) WITHOUT ROWID;

-- Judgments

CREATE TABLE query (                            -- turn key × judge identity × sample -> integer
    id       INTEGER PRIMARY KEY,
    turn_key TEXT NOT NULL,
    judge    TEXT NOT NULL,
    sample   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (turn_key, judge, sample)
);

CREATE TABLE judgment (                         -- clustered by turn: one range scan fetches a turn
    query_id   INTEGER NOT NULL REFERENCES query (id),
    content_id INTEGER NOT NULL,                -- of `content`; a foreign key would scan all judgments at each delete
    score      REAL NOT NULL CHECK (score BETWEEN 0 AND 1),
    prior      REAL NOT NULL DEFAULT 0,
    pack       TEXT NOT NULL DEFAULT '',
    position   INTEGER NOT NULL DEFAULT 0,
    checksum   INTEGER NOT NULL DEFAULT 0,      -- `hashing.judgment_checksums`; a row that does not match is damaged
    PRIMARY KEY (query_id, content_id)
) WITHOUT ROWID;

CREATE TABLE reason (
    query_id   INTEGER NOT NULL,
    content_id INTEGER NOT NULL,
    text       TEXT NOT NULL,
    PRIMARY KEY (query_id, content_id),
    FOREIGN KEY (query_id, content_id) REFERENCES judgment (query_id, content_id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE untrusted_score (                  -- imported scores of unknown origin: they order the work and never count
    turn_key TEXT NOT NULL,
    judge    TEXT NOT NULL,
    sample   INTEGER NOT NULL DEFAULT 0,
    hash     TEXT NOT NULL,                     -- content hash
    score    REAL NOT NULL CHECK (score BETWEEN 0 AND 1),
    PRIMARY KEY (turn_key, judge, sample, hash)
) WITHOUT ROWID;

CREATE TABLE runner (                           -- a process at work on this store; its claims go with it
    id      TEXT PRIMARY KEY,
    pid     INTEGER NOT NULL,
    place   TEXT NOT NULL,                      -- host and process namespace in which the pid is valid
    seen_at REAL NOT NULL                       -- latest heartbeat
) WITHOUT ROWID;

CREATE TABLE claim (                            -- contents that a runner is judging; removed when judged or abandoned
    query_id INTEGER NOT NULL,
    content  TEXT NOT NULL,                     -- content hash
    runner   TEXT NOT NULL,                     -- no foreign key and no index: few rows, short-lived
    PRIMARY KEY (query_id, content)
) WITHOUT ROWID;

-- Turns and working sessions

CREATE TABLE turn (
    id         TEXT PRIMARY KEY,
    thread     TEXT NOT NULL,
    turn_key   TEXT NOT NULL,
    judge      TEXT NOT NULL DEFAULT '',        -- judge key; with turn_key it finds the turn's judgments
    task       TEXT NOT NULL,
    context    TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(context)),  -- `turns.TurnContext`: errors, file, recent, scope
    started_at REAL NOT NULL,
    answer     TEXT NOT NULL DEFAULT '',
    worktree   TEXT NOT NULL DEFAULT '',        -- name of the worktree that it was asked in
    state      TEXT NOT NULL CHECK (state IN ('running', 'done', 'partial', 'failed', 'interrupted', 'continued')),
    branch     TEXT NOT NULL DEFAULT ''         -- the branch that it was asked on, redacted; empty: none, or not known
) WITHOUT ROWID;
CREATE INDEX turn_by_time ON turn (started_at);
CREATE INDEX turn_by_key ON turn (turn_key, judge);
CREATE INDEX turn_by_thread ON turn (thread, started_at);

CREATE TABLE receipt (
    turn_id TEXT PRIMARY KEY REFERENCES turn (id) ON DELETE CASCADE,
    schema  INTEGER NOT NULL,
    body    TEXT NOT NULL CHECK (json_valid(body))
) WITHOUT ROWID;

CREATE TABLE turn_figures (                     -- figures of a finished turn that reports add up
    turn_id    TEXT PRIMARY KEY REFERENCES turn (id) ON DELETE CASCADE,
    command    TEXT NOT NULL,                   -- ask, context, hook, continue, eval, background; empty: unknown
    judge      TEXT NOT NULL,                   -- provider:model, or lexical
    is_model   INTEGER NOT NULL,
    candidates INTEGER NOT NULL,
    judged     INTEGER NOT NULL,
    cached     INTEGER NOT NULL,
    carried    INTEGER NOT NULL,
    unjudged   INTEGER NOT NULL,
    unjudged_by_cause TEXT NOT NULL CHECK (json_valid(unjudged_by_cause)),
    kept       INTEGER NOT NULL,
    near       INTEGER,                         -- scores less than 0.1 from the threshold; NULL: unknown
    threshold  REAL NOT NULL,
    scores     TEXT NOT NULL CHECK (json_valid(scores)),  -- histogram of final scores, 20 bins of 0.05; []: unknown
    index_s    REAL NOT NULL,
    pool_s     REAL NOT NULL,
    cache_s    REAL NOT NULL,
    judge_s    REAL NOT NULL,
    select_s   REAL NOT NULL,
    primary_s  REAL NOT NULL,
    total_s    REAL NOT NULL,
    expected_calls         INTEGER,             -- forecast before judging; NULL: nothing was judged
    expected_input_tokens  INTEGER,
    expected_output_tokens INTEGER,
    expected_cost          INTEGER              -- picodollars; NULL: unpriced
) WITHOUT ROWID;

CREATE TABLE session (                          -- a working session (thread); a branch continues its newest open one
    thread         TEXT PRIMARY KEY,
    branch         TEXT NOT NULL DEFAULT '',
    opened_at      REAL NOT NULL,
    closed_at      REAL,                        -- NULL: open
    current_at     REAL NOT NULL DEFAULT 0,     -- when its branch adopted it; 0: named by a caller, no branch continues it
    active_task    TEXT NOT NULL DEFAULT '',
    active_ticket  TEXT NOT NULL DEFAULT '',
    files_open     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(files_open)),
    last_edit_file TEXT NOT NULL DEFAULT '',
    last_edit_line INTEGER NOT NULL DEFAULT 0,
    conversation_summary TEXT NOT NULL DEFAULT '',
    last_updated   REAL NOT NULL,
    process        TEXT NOT NULL DEFAULT ''     -- last process, terminal and boot that used it
) WITHOUT ROWID;
CREATE INDEX session_by_branch ON session (branch, current_at);

CREATE TABLE compressed_session (               -- a coding agent's session, as it was last compressed
    thread     TEXT PRIMARY KEY,                -- `client-session`, as hooks name it
    origin     TEXT NOT NULL,                   -- claude-code, codex, aider, cline
    path       TEXT NOT NULL,                   -- of its log, with ~ for the home folder
    budget     INTEGER NOT NULL,                -- tokens; 0: only its frontier was saved
    frontier   TEXT NOT NULL DEFAULT '',        -- what was being done when the agent dropped its context; redacted
    updated_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE session_turn (                     -- the tier of each turn of a compressed session
    thread    TEXT NOT NULL REFERENCES compressed_session (thread) ON DELETE CASCADE,
    number    INTEGER NOT NULL,                 -- from 1, in the order of the log
    memory_id TEXT NOT NULL,                    -- that its exchange has where it is imported, so that erasing it comes here
    tier      TEXT NOT NULL CHECK (tier IN ('current', 'topics', 'bulks')),
    level     INTEGER NOT NULL,                 -- how far it is shortened
    PRIMARY KEY (thread, number)
) WITHOUT ROWID;
CREATE INDEX session_turn_by_memory ON session_turn (memory_id);

CREATE TABLE turn_summary (                     -- what a model wrote in place of an agent's words; paid once
    hash   TEXT NOT NULL,                       -- of the words, the model and the prompt
    thread TEXT NOT NULL REFERENCES compressed_session (thread) ON DELETE CASCADE,
    text   TEXT NOT NULL,                       -- sentences whose names all stand in the words; empty: none did
    at     REAL NOT NULL,
    PRIMARY KEY (thread, hash)
) WITHOUT ROWID;

CREATE TABLE checkpoint (
    name       TEXT PRIMARY KEY,
    created_at REAL NOT NULL,
    payload    TEXT NOT NULL CHECK (json_valid(payload))
) WITHOUT ROWID;

CREATE TABLE event (                            -- append-only; erasure may blank a payload while meta has the key `erasing`
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      REAL NOT NULL,
    name    TEXT NOT NULL,
    subject TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(payload))
);
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
WHEN NOT EXISTS (SELECT 1 FROM meta WHERE key = 'erasing') OR NEW.payload <> '{}' OR NEW.id <> OLD.id
    OR NEW.at <> OLD.at OR NEW.name <> OLD.name
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- Money and hosts

CREATE TABLE call (                             -- one row per attempt; dollars are integers of 1e-12 (picodollars), so sums are exact
    id            TEXT PRIMARY KEY,
    turn_id       TEXT NOT NULL,                -- a turn (t_), an index run (e_) or a doctor run (p_)
    stage         TEXT NOT NULL,
    provider      TEXT NOT NULL,
    host          TEXT NOT NULL,
    model         TEXT NOT NULL,
    started_at    REAL NOT NULL,
    duration_s    REAL NOT NULL,
    outcome       TEXT NOT NULL,
    candidates    INTEGER NOT NULL,
    input_tokens          INTEGER NOT NULL,
    cached_input_tokens   INTEGER NOT NULL,
    cache_write_tokens    INTEGER NOT NULL,
    cache_write_1h_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens         INTEGER NOT NULL,
    reasoning_tokens      INTEGER NOT NULL,
    cost                  INTEGER,              -- picodollars; NULL: unpriced
    cost_without_prefix_cache INTEGER,          -- counterfactual costs; NULL: unknown
    cost_without_packs    INTEGER,
    cost_by_batch         INTEGER,
    estimated     INTEGER NOT NULL
, batch TEXT NOT NULL DEFAULT '', cost_live INTEGER) WITHOUT ROWID;
CREATE INDEX call_by_turn ON call (turn_id, stage, provider, model);
CREATE INDEX call_by_time ON call (started_at);

CREATE TABLE reservation (                      -- dollars reserved for calls in flight
    id           TEXT PRIMARY KEY,
    turn_id      TEXT NOT NULL,
    day          TEXT NOT NULL DEFAULT '',      -- UTC, as 2026-11-22
    process      TEXT NOT NULL DEFAULT '',      -- process, session, boot and place (`process_identity`); empty: unknown
    leased_until REAL NOT NULL,
    amount       INTEGER NOT NULL               -- picodollars
) WITHOUT ROWID;
CREATE INDEX reservation_by_turn ON reservation (turn_id);

CREATE TABLE spending (                         -- dollars charged by settled calls, per period that may have a cap
    span  TEXT PRIMARY KEY,                     -- a turn (t_…), a UTC day (2026-11-22), or `repository`
    spent INTEGER NOT NULL                      -- picodollars
) WITHOUT ROWID;

CREATE TABLE capability (                       -- what a host supports for a model, probed once
    provider TEXT NOT NULL,
    host     TEXT NOT NULL,
    model    TEXT NOT NULL,
    body     TEXT NOT NULL CHECK (json_valid(body)),
    at       REAL NOT NULL,
    PRIMARY KEY (provider, host, model)
) WITHOUT ROWID;

CREATE TABLE chars_per_token (                  -- learned from reported usage; old calls fade
    provider TEXT NOT NULL,
    host     TEXT NOT NULL,
    model    TEXT NOT NULL,
    chars    REAL NOT NULL,
    tokens   REAL NOT NULL CHECK (tokens > 0),
    PRIMARY KEY (provider, host, model)
) WITHOUT ROWID;

-- Learning, imports and erasure

CREATE TABLE occurrence (                       -- counted occurrences of a failure, by digest, so that none counts twice
    id        TEXT PRIMARY KEY,
    memory_id TEXT NOT NULL,
    source_exchange TEXT NOT NULL DEFAULT ''    -- the imported exchange; erasing that takes the count back
) WITHOUT ROWID;
CREATE INDEX occurrence_by_memory ON occurrence (memory_id);

CREATE TABLE session_file (                     -- a session log that was imported from
    path        TEXT PRIMARY KEY,               -- with ~ for the home folder
    origin      TEXT NOT NULL,                  -- claude-code, codex, aider, cline
    size        INTEGER NOT NULL,
    mtime_ns    INTEGER NOT NULL,
    readers     INTEGER NOT NULL,               -- version of the readers
    since       REAL NOT NULL,                  -- exchanges before were left out
    note        TEXT NOT NULL DEFAULT '',       -- why nothing was imported; empty: it was read
    imported_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE erased_memory (                    -- ids that were erased; imports skip them
    memory_id TEXT PRIMARY KEY,
    at        REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE muted_key (                        -- keys that are no longer suggested
    key TEXT PRIMARY KEY,
    at  REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE project (                          -- user's store: contributing repositories, by hashed store id
    id      TEXT PRIMARY KEY,
    seen_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE observation (                      -- user's store: what a project says about a key
    project TEXT NOT NULL REFERENCES project (id) ON DELETE CASCADE,
    key     TEXT NOT NULL,
    kind    TEXT NOT NULL,
    value   TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (key, project)
) WITHOUT ROWID;

CREATE TABLE repository_map (                   -- what an index held when a snapshot was taken
    id   TEXT PRIMARY KEY,                      -- g_ and a digest of the body
    body TEXT NOT NULL CHECK (json_valid(body))
) WITHOUT ROWID;

CREATE TABLE evaluation (                       -- one row per evaluation run of a judge
    id         TEXT PRIMARY KEY,                -- v_…
    at         REAL NOT NULL,
    questions  TEXT NOT NULL,                   -- digest of the file of questions
    judge      TEXT NOT NULL,                   -- provider:model, or lexical
    cases      INTEGER NOT NULL,
    k          INTEGER NOT NULL,
    recall     REAL NOT NULL CHECK (recall BETWEEN 0 AND 1),
    precision  REAL NOT NULL CHECK (precision BETWEEN 0 AND 1),
    hit        REAL NOT NULL CHECK (hit BETWEEN 0 AND 1),
    reciprocal_rank REAL NOT NULL CHECK (reciprocal_rank BETWEEN 0 AND 1),
    ndcg       REAL NOT NULL CHECK (ndcg BETWEEN 0 AND 1),
    candidates INTEGER NOT NULL,
    unjudged   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE purpose (                          -- what a model says that a file, class or folder is for; data, never an instruction
    kind    TEXT NOT NULL CHECK (kind IN ('file', 'class', 'folder')),
    content TEXT NOT NULL,                      -- hash of the file, of the class's text, or of the folder and its files' names
    path    TEXT NOT NULL,                      -- where it was when this was written
    line    TEXT NOT NULL,                      -- one line, redacted; empty: the source did not bear out what the model wrote
    writer  TEXT NOT NULL,                      -- provider:model
    at      REAL NOT NULL,
    PRIMARY KEY (kind, content)
) WITHOUT ROWID;

CREATE TABLE calibration (                      -- what the scores of a judge were worth on past commits
    judge TEXT PRIMARY KEY,                     -- judge key
    body  TEXT NOT NULL CHECK (json_valid(body)),  -- `records.calibration.Calibration`
    at    REAL NOT NULL
) WITHOUT ROWID;

-- Lists of questions judged by batch jobs

CREATE TABLE job (                              -- a list of questions
    id           TEXT PRIMARY KEY,              -- b_…
    created_at   REAL NOT NULL,
    command      TEXT NOT NULL CHECK (command IN ('submit', 'run', 'rescore')),
    questions    TEXT NOT NULL,                 -- digest of the list
    judge_spec   TEXT NOT NULL,                 -- provider:model
    judge        TEXT NOT NULL,                 -- judge key
    plan         TEXT NOT NULL CHECK (json_valid(plan)),  -- what all requests share
    checksum     INTEGER NOT NULL,              -- `hashing.row_checksum` over id, judge and plan
    max_usd      INTEGER,                       -- picodollars; NULL: no cap of its own
    candidates   INTEGER NOT NULL,              -- over all questions, when planned
    cached       INTEGER NOT NULL,              -- of these, served from cache
    ended_at     REAL,                          -- NULL: there is more to send or fetch
    runner       TEXT NOT NULL DEFAULT '',      -- the runner that works on it now
    stopped_at   REAL                           -- cancelled: nothing more is sent, sent batches are still collected
) WITHOUT ROWID;
CREATE INDEX job_by_time ON job (created_at);

CREATE TABLE job_question (
    job        TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,                -- from 0, as in the list
    name       TEXT NOT NULL,                   -- its id in the list
    context    TEXT NOT NULL CHECK (json_valid(context)),  -- task, errors, file as judged (redacted)
    turn_key   TEXT NOT NULL,
    checksum   INTEGER NOT NULL,                -- over job, number, context and turn key
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE job_ask (                          -- a prompt without its question, stored once for all questions that share it
    job     TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    pack    TEXT NOT NULL,                      -- names the prompt; seeds its ids
    rung    INTEGER NOT NULL,                   -- step of the repair ladder
    is_kept INTEGER NOT NULL,
    pieces  TEXT NOT NULL CHECK (json_valid(pieces)),  -- in order: content hash; for a part also the memory's hash and part count
    checksum INTEGER NOT NULL,                  -- over job, number, pack and pieces
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE job_request (                      -- one question with one ask
    job      TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    question INTEGER NOT NULL,
    ask      INTEGER NOT NULL,
    batch    INTEGER NOT NULL DEFAULT 0,        -- the batch that carries it; 0: none yet
    state    TEXT NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'sent', 'answered', 'lost')),
    cause    TEXT NOT NULL DEFAULT '',          -- why it was lost
    tries    INTEGER NOT NULL DEFAULT 0,        -- how often it was sent
    PRIMARY KEY (job, question, ask)
) WITHOUT ROWID;
CREATE INDEX job_request_by_batch ON job_request (job, batch);

CREATE TABLE batch (                            -- a batch at a vendor; the row is written before the batch is sent
    job        TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,                -- from 1
    token      TEXT NOT NULL UNIQUE,            -- our name for it: sent to the vendor, and the start of every custom_id
    state      TEXT NOT NULL CHECK (state IN ('marked', 'created', 'ended', 'collected', 'failed')),
    marked_at  REAL NOT NULL,                   -- when it was last about to be sent
    vendor_id  TEXT NOT NULL DEFAULT '',
    status     TEXT NOT NULL DEFAULT '',        -- the vendor's status, as last seen
    seen_at    REAL,                            -- when the status was read
    requests   INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,              -- our estimate, for the vendor's limit on queued tokens
    problem    TEXT NOT NULL DEFAULT '',        -- what went wrong
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

-- Views for people who read a store with their own tools: they show what any worktree has. Every connection of ours has
-- temporary views of these names, which show what its own worktree has (`worktrees.enter_worktree`).

CREATE VIEW memory AS
    SELECT *, coalesce((SELECT hash FROM memory_view WHERE memory = number AND view = 'card' AND worktree = 0),
                       whole_hash) AS content_hash, whole_hash AS text_hash
    FROM (SELECT *, (SELECT hash FROM memory_view WHERE memory = number AND view = 'whole' AND worktree = 0)
              AS whole_hash FROM memory_row);
CREATE VIEW file AS
    SELECT path, size, mtime_ns, file_hash, language, excluded, version, worktree.name AS worktree
    FROM file_row JOIN worktree ON worktree.number = worktree;
CREATE VIEW edge AS
    SELECT one.id AS source, other.id AS target, relation, weight,
           coalesce((SELECT substr(id, 3) FROM edge_end WHERE number = file), '') AS path, worktree
    FROM edge_row JOIN edge_end AS one ON one.number = source JOIN edge_end AS other ON other.number = target;

CREATE VIEW user_preferences AS
    SELECT key, text AS value, confidence, source, updated_at AS last_seen
    FROM memory WHERE layer = 'user' AND kind = 'preference' AND status = 'active';
CREATE VIEW user_patterns AS
    SELECT id, coalesce(json_extract(attrs, '$.polarity'), 'pattern') AS type, text AS description,
           evidence_count, confidence, created_at AS first_seen, updated_at AS last_seen
    FROM memory WHERE layer = 'user' AND kind = 'pattern' AND status = 'active';
CREATE VIEW vector_chunks AS
    SELECT id, path, entity, start_line, end_line FROM memory WHERE layer = 'vector' AND status = 'active';
CREATE VIEW nodes AS
    SELECT id, 'symbol' AS type, path, entity AS name FROM memory WHERE layer = 'graph' AND status = 'active'
    UNION ALL
    SELECT id, 'slice', path, entity FROM memory WHERE layer = 'vector' AND status = 'active'
    UNION ALL
    SELECT DISTINCT 'f_' || path, 'file', path, path FROM file WHERE excluded = '';
CREATE VIEW decisions AS
    SELECT id, title, text AS description, json_extract(attrs, '$.rationale') AS rationale,
           json_extract(attrs, '$.alternatives') AS alternatives_json, json_extract(attrs, '$.links') AS links_json,
           coalesce(json_extract(attrs, '$.author'), source) AS created_by, created_at
    FROM memory WHERE kind = 'decision' AND status = 'active';
CREATE VIEW session_state AS                    -- the most recent working session
    SELECT 1 AS id, (SELECT value FROM meta WHERE key = 'store_id') AS project_id, active_task, active_ticket,
           files_open, last_edit_file, last_edit_line, conversation_summary, last_updated, branch, thread
    FROM session ORDER BY last_updated DESC, opened_at DESC, thread LIMIT 1;
CREATE VIEW project_facts AS                    -- decisions are facts of the project too
    SELECT id, (SELECT value FROM meta WHERE key = 'store_id') AS project_id, kind AS category, key,
           json_object('text', text) AS value_json, importance, created_at, updated_at
    FROM memory WHERE status = 'active' AND (layer = 'project' OR kind = 'decision');
