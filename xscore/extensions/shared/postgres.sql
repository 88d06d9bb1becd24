-- What several processes and machines share on PostgreSQL: tables, and one function for each request, so that a request
-- is one statement and happens whole or not at all. Writers of one turn, one bucket or one day wait for each other at an
-- advisory lock. Rows are locked in one order, runners before claims, and cleaning up skips locked rows, so no deadlock
-- can form. A long answer is sent after its commit, because a client that stops while it reads would otherwise block all
-- others. All times are the server's.

CREATE SCHEMA IF NOT EXISTS xscore;

CREATE TABLE xscore.version (number integer NOT NULL);
INSERT INTO xscore.version VALUES (1);

CREATE TABLE xscore.judgment (
    tenant  text NOT NULL,
    turn    text NOT NULL,      -- digest of turn key, judge key and sample
    content text NOT NULL,      -- content hash
    entry   text NOT NULL,      -- the judgment with its checksum, as it came
    PRIMARY KEY (tenant, turn, content)
);
CREATE TABLE xscore.claim (
    tenant  text NOT NULL,
    turn    text NOT NULL,
    content text NOT NULL,
    runner  text NOT NULL,
    PRIMARY KEY (tenant, turn, content)
);
CREATE INDEX claim_by_runner ON xscore.claim (tenant, runner);
CREATE TABLE xscore.runner (
    tenant text NOT NULL,
    name   text NOT NULL,
    until  timestamptz NOT NULL, -- the end of its lease
    PRIMARY KEY (tenant, name)
);
CREATE TABLE xscore.bucket (
    tenant text NOT NULL,
    name   text NOT NULL,        -- digest of host and model
    kind   text NOT NULL,
    level  double precision NOT NULL,
    at     timestamptz NOT NULL, -- when it had that level
    PRIMARY KEY (tenant, name, kind)
);
CREATE TABLE xscore.reservation (
    tenant text NOT NULL,
    day    text NOT NULL,        -- UTC
    name   text NOT NULL,
    held   bigint NOT NULL,      -- 1e-9 dollars, until its lease is over
    spent  bigint NOT NULL,      -- 1e-9 dollars, in total
    until  timestamptz NOT NULL,
    PRIMARY KEY (tenant, day, name)
);

-- Take the lock of one turn, bucket or day of a tenant.
CREATE FUNCTION xscore.in_line(_tenant text, _what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- A snapshot older than the lock would miss what earlier writers wrote, and the cap could be passed.
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'default_transaction_isolation of this user must be read committed';
    END IF;
    -- Always use the keys: statistics of tables that fill and empty within seconds would suggest scans.
    PERFORM set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('xscore ' || _tenant || ' ' || _what, 0::bigint));
END $$;

CREATE FUNCTION xscore.heartbeat(_tenant text, _runner text, _lease_s double precision) RETURNS void LANGUAGE sql AS $$
    INSERT INTO xscore.runner VALUES (_tenant, _runner, clock_timestamp() + make_interval(secs => _lease_s))
    ON CONFLICT (tenant, name) DO UPDATE SET until = excluded.until;
$$;

-- Forget a runner, and those whose lease ended a day ago.
CREATE FUNCTION xscore.release_runner(_tenant text, _runner text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    gone text[];
BEGIN
    DELETE FROM xscore.runner WHERE tenant = _tenant AND name = _runner;
    WITH forgotten AS (
        DELETE FROM xscore.runner WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM xscore.runner
            WHERE tenant = _tenant AND until < clock_timestamp() - interval '1 day'
            FOR UPDATE SKIP LOCKED
        )) RETURNING name
    )
    SELECT array_agg(name) || _runner INTO gone FROM forgotten;
    DELETE FROM xscore.claim WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM xscore.claim
        WHERE tenant = _tenant AND runner = ANY (gone) -- by name: a row that was taken over meanwhile is another's
        FOR UPDATE SKIP LOCKED
    ));
END $$;

-- Claims whole packs. Gives one letter a pack (o: ours, t: theirs, f: free), and the places (from 1) and entries of the
-- contents that are judged.
CREATE PROCEDURE xscore.claim(
    _tenant text, _turn text, _runner text, _lease_s double precision, _at_most integer, _sizes integer[],
    _contents text[], INOUT shares text, INOUT places integer[], INOUT entries text[]
) LANGUAGE plpgsql AS $$
DECLARE
    judged boolean[];
    claimed boolean[];
    mine text[] := '{}';
    open integer;
    is_theirs boolean;
    size integer;
    number integer := 0;
BEGIN
    PERFORM xscore.in_line(_tenant, 'turn ' || _turn);
    PERFORM xscore.heartbeat(_tenant, _runner, _lease_s);
    WITH found AS MATERIALIZED (
        SELECT asked.at,
            (SELECT known.entry FROM xscore.judgment AS known
             WHERE known.tenant = _tenant AND known.turn = _turn AND known.content = asked.content) AS entry,
            EXISTS (SELECT FROM xscore.claim AS held
                    JOIN xscore.runner AS other ON other.tenant = held.tenant AND other.name = held.runner
                    WHERE held.tenant = _tenant AND held.turn = _turn AND held.content = asked.content
                        AND held.runner <> _runner AND other.until > clock_timestamp()) AS is_claimed
        FROM unnest(_contents) WITH ORDINALITY AS asked (content, at)
    )
    SELECT
        array_agg(found.entry IS NOT NULL ORDER BY at),
        array_agg(is_claimed ORDER BY at),
        array_agg(at ORDER BY at) FILTER (WHERE found.entry IS NOT NULL),
        array_agg(found.entry ORDER BY at) FILTER (WHERE found.entry IS NOT NULL)
        INTO judged, claimed, places, entries FROM found;
    shares := '';
    FOREACH size IN ARRAY _sizes LOOP
        open := 0;
        is_theirs := false;
        FOR _at IN number + 1 .. number + size LOOP
            IF NOT judged[_at] THEN
                open := open + 1;
                is_theirs := is_theirs OR claimed[_at];
            END IF;
        END LOOP;
        IF open = 0 THEN
            shares := shares || 'o';
        ELSIF is_theirs THEN
            shares := shares || 't';
        ELSIF _at_most > 0 THEN
            _at_most := _at_most - 1;
            shares := shares || 'o';
            FOR _at IN number + 1 .. number + size LOOP
                IF NOT judged[_at] THEN
                    mine[cardinality(mine) + 1] := _contents[_at];
                END IF;
            END LOOP;
        ELSE
            shares := shares || 'f';
        END IF;
        number := number + size;
    END LOOP;
    INSERT INTO xscore.claim
        SELECT DISTINCT _tenant, _turn, content, _runner FROM unnest(mine) AS own (content)
        ON CONFLICT (tenant, turn, content) DO UPDATE SET runner = excluded.runner;
    COMMIT;
END $$;

CREATE FUNCTION xscore.store_judgments(_tenant text, _turn text, _contents text[], _entries text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM xscore.in_line(_tenant, 'turn ' || _turn);
    INSERT INTO xscore.judgment
        SELECT _tenant, _turn, content, entry FROM unnest(_contents, _entries) AS told (content, entry)
        ON CONFLICT (tenant, turn, content) DO NOTHING;
    DELETE FROM xscore.claim WHERE tenant = _tenant AND turn = _turn AND content = ANY (_contents);
END $$;

-- Takes from buckets, into debt where need be; what is negative is given back. Returns the seconds to wait.
CREATE FUNCTION xscore.take(
    _tenant text, _bucket text, _kinds text[], _amounts double precision[], _per_minute double precision[],
    _capacities double precision[]
) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz;
    last xscore.bucket;
    filled double precision;
    missing double precision;
    longest double precision := 0;
BEGIN
    PERFORM xscore.in_line(_tenant, 'bucket ' || _bucket);
    now := clock_timestamp();
    FOR _at IN 1 .. cardinality(_kinds) LOOP
        filled := _capacities[_at];
        SELECT * INTO last FROM xscore.bucket WHERE tenant = _tenant AND name = _bucket AND kind = _kinds[_at];
        IF FOUND THEN
            filled := least(
                filled, last.level + greatest(0, extract(epoch FROM now - last.at)) * _per_minute[_at] / 60
            );
        END IF;
        missing := least(_amounts[_at], _capacities[_at]) - filled;
        IF _amounts[_at] > 0 AND missing > 1e-6 THEN
            longest := greatest(longest, missing / (_per_minute[_at] / 60));
        END IF;
        INSERT INTO xscore.bucket
            VALUES (_tenant, _bucket, _kinds[_at], least(_capacities[_at], filled - _amounts[_at]), now)
            ON CONFLICT (tenant, name, kind) DO UPDATE SET level = excluded.level, at = excluded.at;
    END LOOP;
    RETURN longest;
END $$;

-- Set what a reservation has spent of a day, and what it holds in addition. Return what the cap has room for after that;
-- below zero nothing was changed. Without a cap nothing is refused, and no more is held than before.
-- Reservations of past days are forgotten.
CREATE FUNCTION xscore.reserve(
    _tenant text, _day text, _reservation text, _held bigint, _spent bigint, _cap numeric, _lease_s double precision
) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz;
    before xscore.reservation;
    held_before bigint := 0;
    spent_before bigint := 0;
    used numeric;
    room numeric := 0;
BEGIN
    PERFORM xscore.in_line(_tenant, 'day ' || _day);
    now := clock_timestamp();
    SELECT * INTO before FROM xscore.reservation WHERE tenant = _tenant AND day = _day AND name = _reservation;
    IF FOUND THEN
        spent_before := before.spent;
        held_before := CASE WHEN before.until > now THEN before.held ELSE 0 END;
    ELSE
        DELETE FROM xscore.reservation WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM xscore.reservation
            WHERE tenant = _tenant AND day <> _day AND until < now - interval '3 days'
            FOR UPDATE SKIP LOCKED
        ));
    END IF;
    _spent := greatest(_spent, spent_before);
    IF _cap IS NULL THEN
        _held := least(_held, held_before);
    ELSE
        SELECT coalesce(sum(spent + CASE WHEN until > now THEN held ELSE 0 END), 0) INTO used
            FROM xscore.reservation WHERE tenant = _tenant AND day = _day;
        room := _cap - (used - held_before - spent_before + _held + _spent);
        IF room < 0 THEN
            RETURN room;
        END IF;
    END IF;
    INSERT INTO xscore.reservation
        VALUES (_tenant, _day, _reservation, _held, _spent, now + make_interval(secs => coalesce(_lease_s, 0)))
        ON CONFLICT (tenant, day, name) DO UPDATE SET
            held = excluded.held,
            spent = excluded.spent,
            until = CASE WHEN _lease_s IS NULL THEN xscore.reservation.until ELSE excluded.until END;
    RETURN room;
END $$;
