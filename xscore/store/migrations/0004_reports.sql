-- What reports add up: exact dollars that SQL can sum, the figures of each turn, caps beyond one turn, evaluations.
-- Dollars are integers of 1e-12 (`picodollars`): a vendor's price for one token is exact in them, and so is every sum.

ALTER TABLE call RENAME TO call_before;
DROP INDEX call_by_turn;
DROP INDEX call_by_time;
CREATE TABLE call (                             -- one row an attempt
    id            TEXT PRIMARY KEY,
    turn_id       TEXT NOT NULL,                -- of a turn (t_), or of what else made calls: an index (e_), the doctor (p_)
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
    cost                  INTEGER,              -- picodollars; NULL is unpriced
    cost_without_prefix_cache INTEGER,          -- what it would have cost otherwise; NULL is not known
    cost_without_packs    INTEGER,
    cost_by_batch         INTEGER,
    estimated     INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO call (id, turn_id, stage, provider, host, model, started_at, duration_s, outcome, candidates, input_tokens,
                  cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, estimated)
    SELECT id, turn_id, stage, provider, host, model, started_at, duration_s, outcome, candidates, input_tokens,
           cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens, picodollars(cost_usd), estimated
    FROM call_before;
DROP TABLE call_before;
CREATE INDEX call_by_turn ON call (turn_id, stage, provider, model);  -- a report adds up in this order, without a sort
CREATE INDEX call_by_time ON call (started_at);

ALTER TABLE reservation RENAME TO reservation_before;
DROP INDEX reservation_by_turn;
CREATE TABLE reservation (                      -- dollars set aside for calls in flight
    id           TEXT PRIMARY KEY,
    turn_id      TEXT NOT NULL,
    day          TEXT NOT NULL DEFAULT '',      -- UTC, as 2026-11-22
    life         TEXT NOT NULL DEFAULT '',      -- process, session, boot and place (`processes.life`); empty: not known
    leased_until REAL NOT NULL,
    amount       INTEGER NOT NULL               -- picodollars
) WITHOUT ROWID;
INSERT INTO reservation (id, turn_id, leased_until, amount)
    SELECT id, turn_id, leased_until, coalesce(picodollars(amount_usd), 0) FROM reservation_before;
DROP TABLE reservation_before;
CREATE INDEX reservation_by_turn ON reservation (turn_id);

ALTER TABLE spending RENAME TO spending_before;
CREATE TABLE spending (                         -- dollars charged by settled calls, within each span that may have a cap
    span  TEXT PRIMARY KEY,                     -- a turn (t_…), a UTC day (2026-11-22), or `repository`
    spent INTEGER NOT NULL                      -- picodollars
) WITHOUT ROWID;
INSERT INTO spending (span, spent) SELECT turn_id, coalesce(picodollars(spent_usd), 0) FROM spending_before;
-- What the caps of a day and of the repository count; in millions and rest, so that no sum overflows.
-- name: bills_of_calls
INSERT OR IGNORE INTO spending (span, spent)
    SELECT span, iif(millions >= 9223372036854, 9223372036854775807, millions * 1000000 + rest) FROM (
        SELECT span, sum(cost / 1000000) + sum(cost % 1000000) / 1000000 AS millions, sum(cost % 1000000) % 1000000 AS rest
        FROM (SELECT date(started_at, 'unixepoch') AS span, cost FROM call UNION ALL SELECT 'repository', cost FROM call)
        WHERE span IS NOT NULL AND cost IS NOT NULL GROUP BY span
    );
DROP TABLE spending_before;

CREATE TABLE turn_figures (                     -- what reports add up of a finished turn, beside its receipt
    turn_id    TEXT PRIMARY KEY REFERENCES turn (id) ON DELETE CASCADE,
    command    TEXT NOT NULL,                   -- ask, context, continue, eval; empty: not known
    judge      TEXT NOT NULL,                   -- provider:model, or lexical
    is_model   INTEGER NOT NULL,
    candidates INTEGER NOT NULL,
    judged     INTEGER NOT NULL,
    cached     INTEGER NOT NULL,
    carried    INTEGER NOT NULL,
    unjudged   INTEGER NOT NULL,
    unjudged_by_cause TEXT NOT NULL CHECK (json_valid(unjudged_by_cause)),
    kept       INTEGER NOT NULL,
    near       INTEGER,                         -- scores less than 0.1 from the threshold; NULL is not known
    threshold  REAL NOT NULL,
    scores     TEXT NOT NULL CHECK (json_valid(scores)),  -- final scores, counted in 20 bins of 0.05; [] is not known
    index_s    REAL NOT NULL,
    pool_s     REAL NOT NULL,
    cache_s    REAL NOT NULL,
    judge_s    REAL NOT NULL,
    select_s   REAL NOT NULL,
    primary_s  REAL NOT NULL,
    total_s    REAL NOT NULL,
    expected_calls         INTEGER,             -- what judging was expected to take before it began; NULL: nothing was judged
    expected_input_tokens  INTEGER,
    expected_output_tokens INTEGER,
    expected_cost          INTEGER              -- picodollars; NULL is unpriced
) WITHOUT ROWID;
-- name: figures_of_receipts
INSERT OR IGNORE INTO turn_figures (turn_id, command, judge, is_model, candidates, judged, cached, carried, unjudged,
                          unjudged_by_cause, kept, threshold, scores,
                          index_s, pool_s, cache_s, judge_s, select_s, primary_s, total_s)
    SELECT turn_id, '', CASE json_extract(body, '$.judge.is_model') WHEN 1 THEN json_extract(body, '$.judge.provider') || ':' || json_extract(body, '$.judge.model') ELSE 'lexical' END,
           json_extract(body, '$.judge.is_model'),
           json_extract(body, '$.coverage.candidates'), json_extract(body, '$.coverage.judged'), json_extract(body, '$.coverage.cached'),
           json_extract(body, '$.coverage.carried'), json_extract(body, '$.coverage.unjudged'),
           coalesce(json_extract(body, '$.unjudged.by_cause'), '{}'), json_array_length(body, '$.selected'),
           json_extract(body, '$.threshold'), '[]',
           coalesce(json_extract(body, '$.latency_s.index'), 0), coalesce(json_extract(body, '$.latency_s.pool'), 0), coalesce(json_extract(body, '$.latency_s.cache'), 0),
           coalesce(json_extract(body, '$.latency_s.judge'), 0), coalesce(json_extract(body, '$.latency_s.select'), 0),
           coalesce(json_extract(body, '$.latency_s.primary'), 0), coalesce(json_extract(body, '$.latency_s.total'), 0)
    FROM receipt JOIN turn ON turn.id = turn_id WHERE json_extract(body, '$.coverage.candidates') IS NOT NULL;

CREATE TABLE evaluation (                       -- how well a judge found what it should, each time it was asked
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
