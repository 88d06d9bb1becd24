-- A repository can be closed to all members but those who were granted access. Who is granted what is an
-- administrator's to say: a member proves nothing by knowing a commit or the hash of a text, since both are in logs of
-- builds, forks and the memory of those who have left. Repositories that were shared before stay open.

CREATE TABLE xscore_team.closed (
    organisation text NOT NULL,
    project      text NOT NULL CHECK (project ~ '^[0-9a-f]{32}$'),
    PRIMARY KEY (organisation, project)
);

CREATE TABLE xscore_team.access (
    organisation text        NOT NULL,
    project      text        NOT NULL CHECK (project ~ '^[0-9a-f]{32}$'),
    member       text        NOT NULL CHECK (member ~ '^[0-9a-f]{32}$'),
    granted_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organisation, project, member)
);

ALTER TABLE xscore_team.closed ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.closed FORCE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.access ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.access FORCE ROW LEVEL SECURITY;
CREATE POLICY closed_of_owner ON xscore_team.closed TO xscore_team_owner USING (true) WITH CHECK (true);
CREATE POLICY access_of_owner ON xscore_team.access TO xscore_team_owner USING (true) WITH CHECK (true);

-- The closed repositories of this login's organisation that it was not granted. It runs as the owner, since no member
-- may read who was granted what. A policy asks it once a statement, not once a row.
CREATE FUNCTION xscore_team.closed_to_me() RETURNS text[] LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(closed.project), '{}') FROM xscore_team.closed
    WHERE closed.organisation = xscore_team.current_organisation() AND NOT EXISTS (
        SELECT FROM xscore_team.access WHERE access.organisation = closed.organisation
            AND access.project = closed.project AND access.member = xscore_team.current_member()
    );
$$;

ALTER POLICY project_of_organisation ON xscore_team.project
    USING (organisation = (SELECT xscore_team.current_organisation())
        AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[]))
    WITH CHECK (organisation = (SELECT xscore_team.current_organisation())
        AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[]));

ALTER POLICY entry_read ON xscore_team.entry
    USING (organisation = (SELECT xscore_team.current_organisation())
        AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[]));
ALTER POLICY entry_insert ON xscore_team.entry WITH CHECK (
    organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
        AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[])
);
ALTER POLICY entry_update ON xscore_team.entry
    USING (organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
        AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[]))
    WITH CHECK (
        organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
            AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[])
    );

ALTER POLICY reader_read ON xscore_team.reader
    USING (organisation = (SELECT xscore_team.current_organisation())
        AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[]));
ALTER POLICY reader_write ON xscore_team.reader
    USING (organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
        AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[]))
    WITH CHECK (
        organisation = (SELECT xscore_team.current_organisation()) AND member = (SELECT xscore_team.current_member())
            AND project <> ALL ((SELECT xscore_team.closed_to_me())::text[])
    );

REVOKE ALL ON xscore_team.closed, xscore_team.access FROM PUBLIC;
REVOKE ALL ON FUNCTION xscore_team.closed_to_me() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION xscore_team.closed_to_me() TO xscore_team_member;

-- Clients of the first schema go on: they see what they may, and no more.
UPDATE xscore_team.version SET number = 2, serves_from = 1;
