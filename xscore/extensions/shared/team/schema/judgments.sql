-- Judgments, claims, limits and dollars of several teams on one database: the tables of `postgres.sql`, with the same
-- walls as the memories. The tenant that a client names must be the organisation of its login.
DO $$
DECLARE
    _table text;
BEGIN
    FOREACH _table IN ARRAY ARRAY['judgment', 'claim', 'runner', 'bucket', 'reservation'] LOOP
        EXECUTE format('ALTER TABLE xscore.%I ENABLE ROW LEVEL SECURITY', _table);
        EXECUTE format('ALTER TABLE xscore.%I FORCE ROW LEVEL SECURITY', _table);
        EXECUTE format('DROP POLICY IF EXISTS of_organisation ON xscore.%I', _table);
        EXECUTE format(
            'CREATE POLICY of_organisation ON xscore.%I TO xscore_team_member'
            ' USING (tenant = (SELECT xscore_team.current_organisation()))'
            ' WITH CHECK (tenant = (SELECT xscore_team.current_organisation()))', _table
        );
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON xscore.%I TO xscore_team_member', _table);
    END LOOP;
    -- For an administrator who is no superuser and removes what is unused: of the one team that the transaction names.
    DROP POLICY IF EXISTS of_owner ON xscore.judgment;
    CREATE POLICY of_owner ON xscore.judgment TO xscore_team_owner
        USING (tenant = current_setting('xscore.organisation', true));
    GRANT SELECT, DELETE ON xscore.judgment TO xscore_team_owner;
END $$;
GRANT USAGE ON SCHEMA xscore TO xscore_team_member, xscore_team_owner;
GRANT SELECT ON xscore.version TO xscore_team_member;
