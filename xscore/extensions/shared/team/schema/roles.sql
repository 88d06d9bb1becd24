-- The two roles of every team on this server. Neither can log in: a member's login is given the second.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'xscore_team_owner') THEN
        CREATE ROLE xscore_team_owner NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'xscore_team_member') THEN
        CREATE ROLE xscore_team_member NOLOGIN;
    END IF;
END $$;
GRANT xscore_team_owner TO CURRENT_USER;
CREATE SCHEMA IF NOT EXISTS xscore_team AUTHORIZATION xscore_team_owner;
-- On PostgreSQL 14 and older everyone may create there. An administrator who does not own it gets a warning, no error.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public') THEN
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    END IF;
END $$;
