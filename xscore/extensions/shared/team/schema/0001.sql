-- What the members of an organisation share. Who asks is known by the login, never by what a client says:
-- `session_user` cannot be changed by SET ROLE, and no setting of a session counts. Row-level security is forced, so
-- that a wrong query, or the owner's, shows no row of another organisation. Texts come encrypted, by a key that is not
-- here. An entry that was erased keeps its row without content, so that every member's copy goes with the next pull.

CREATE TABLE xscore_team.version (
    number      integer NOT NULL,
    serves_from integer NOT NULL  -- the oldest schema whose clients this one still serves
);

CREATE TABLE xscore_team.login (
    login_role   name PRIMARY KEY,
    organisation text NOT NULL CHECK (organisation ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
    member       text NOT NULL CHECK (member ~ '^[0-9a-f]{32}$') -- digest of organisation and login
);

CREATE TABLE xscore_team.project (
    organisation text   NOT NULL,
    project      text   NOT NULL CHECK (project ~ '^[0-9a-f]{32}$'), -- keyed digest of the repository's name
    epoch        text   NOT NULL DEFAULT gen_random_uuid()::text,
    version      bigint NOT NULL DEFAULT 0,                          -- of its latest entry
    PRIMARY KEY (organisation, project)
);

CREATE TABLE xscore_team.entry (
    organisation text        NOT NULL,
    project      text        NOT NULL,
    member       text        NOT NULL,
    name         text        NOT NULL CHECK (name ~ '^[0-9a-f]{32}$'), -- keyed digest of the memory's id
    kind         text        NOT NULL CHECK (kind IN ('memory', 'checkpoint')),
    version      bigint      NOT NULL,
    content      bytea       CHECK (octet_length(content) <= 1000000), -- encrypted; NULL: erased
    created_at   timestamptz NOT NULL DEFAULT now(),
    changed_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organisation, project, member, name)
);
CREATE UNIQUE INDEX entry_by_version ON xscore_team.entry (organisation, project, version);

CREATE TABLE xscore_team.reader (
    organisation text        NOT NULL,
    project      text        NOT NULL,
    member       text        NOT NULL,
    profile      bytea       NOT NULL CHECK (octet_length(profile) <= 10000), -- encrypted: how the member is called
    version      bigint      NOT NULL,                                       -- up to which it has pulled
    seen_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organisation, project, member)
);

-- The organisation and member of this login. They run as the owner, since no member may read the list of logins.
CREATE FUNCTION xscore_team.current_organisation() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT organisation FROM xscore_team.login WHERE login_role = session_user;
$$;
CREATE FUNCTION xscore_team.current_member() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT member FROM xscore_team.login WHERE login_role = session_user;
$$;

ALTER TABLE xscore_team.login ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.login FORCE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.project ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.project FORCE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.entry FORCE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.reader ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.reader FORCE ROW LEVEL SECURITY;

-- For the two functions and for an administrator who has the role; no policy of another table names the owner.
CREATE POLICY login_of_owner ON xscore_team.login TO xscore_team_owner USING (true) WITH CHECK (true);

CREATE POLICY project_of_organisation ON xscore_team.project TO xscore_team_member
    USING (organisation = (SELECT xscore_team.current_organisation()))
    WITH CHECK (organisation = (SELECT xscore_team.current_organisation()));

CREATE POLICY entry_read ON xscore_team.entry FOR SELECT TO xscore_team_member
    USING (organisation = (SELECT xscore_team.current_organisation()));
CREATE POLICY entry_insert ON xscore_team.entry FOR INSERT TO xscore_team_member WITH CHECK (
    organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
);
CREATE POLICY entry_update ON xscore_team.entry FOR UPDATE TO xscore_team_member
    USING (organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member()))
    WITH CHECK (
        organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
    );

CREATE POLICY reader_read ON xscore_team.reader FOR SELECT TO xscore_team_member
    USING (organisation = (SELECT xscore_team.current_organisation()));
CREATE POLICY reader_write ON xscore_team.reader TO xscore_team_member
    USING (organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member()))
    WITH CHECK (
        organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
    );

-- Store entries of this member, and erase those whose content is NULL. What is there already changes nothing, so a
-- request that is sent again, because its answer was lost, doubles nothing. Versions are given while the project's row
-- is locked, so a reader that has seen one has seen every earlier one. Returns the latest.
CREATE FUNCTION xscore_team.put_entries(_project text, _names text[], _kinds text[], _contents bytea[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _organisation text := xscore_team.current_organisation();
    _member text := xscore_team.current_member();
    _version bigint;
    _changed integer;
BEGIN
    IF _organisation IS NULL THEN
        RAISE insufficient_privilege USING MESSAGE = 'this login belongs to no organisation';
    END IF;
    INSERT INTO xscore_team.project (organisation, project) VALUES (_organisation, _project) ON CONFLICT DO NOTHING;
    SELECT version INTO _version FROM xscore_team.project
        WHERE organisation = _organisation AND project = _project FOR UPDATE;
    FOR _at IN 1 .. coalesce(cardinality(_names), 0) LOOP
        IF _contents[_at] IS NULL THEN
            UPDATE xscore_team.entry SET content = NULL, version = _version + 1, changed_at = clock_timestamp()
                WHERE organisation = _organisation AND project = _project AND member = _member
                    AND name = _names[_at] AND content IS NOT NULL;
        ELSE
            INSERT INTO xscore_team.entry AS kept (organisation, project, member, name, kind, version, content)
                VALUES (_organisation, _project, _member, _names[_at], _kinds[_at], _version + 1, _contents[_at])
                ON CONFLICT (organisation, project, member, name) DO UPDATE
                    SET content = excluded.content, version = excluded.version, changed_at = clock_timestamp()
                    WHERE kept.content IS DISTINCT FROM excluded.content;
        END IF;
        GET DIAGNOSTICS _changed = ROW_COUNT;
        _version := _version + _changed;
    END LOOP;
    UPDATE xscore_team.project SET version = _version
        WHERE organisation = _organisation AND project = _project AND version < _version;
    RETURN _version;
END $$;

-- Note that this member has pulled up to a version.
CREATE FUNCTION xscore_team.note_reader(_project text, _profile bytea, _version bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO xscore_team.reader (organisation, project, member, profile, version, seen_at)
        VALUES (xscore_team.current_organisation(), _project, xscore_team.current_member(), _profile, _version, now())
        ON CONFLICT (organisation, project, member) DO UPDATE
            SET profile = excluded.profile, version = excluded.version, seen_at = excluded.seen_at;
$$;

-- Members have what their requests take, and no more: they delete nothing, and see no login.
REVOKE ALL ON ALL TABLES IN SCHEMA xscore_team FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA xscore_team FROM PUBLIC;
GRANT USAGE ON SCHEMA xscore_team TO xscore_team_member;
GRANT SELECT ON xscore_team.version TO xscore_team_member;
GRANT SELECT, INSERT (organisation, project), UPDATE (version) ON xscore_team.project TO xscore_team_member;
GRANT SELECT, INSERT (organisation, project, member, name, kind, version, content),
    UPDATE (content, version, changed_at) ON xscore_team.entry TO xscore_team_member;
GRANT SELECT, INSERT, UPDATE, DELETE ON xscore_team.reader TO xscore_team_member;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA xscore_team TO xscore_team_member;

INSERT INTO xscore_team.version VALUES (1, 1);
