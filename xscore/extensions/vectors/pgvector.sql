-- Vectors that are searched for their owners. Who asks is known by the login, never by what a client says:
-- `session_user` cannot be changed by SET ROLE. Row-level security is forced, so that a wrong query shows no row of
-- another login. There is no text here; but from the vector of a short text the text can be guessed.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA IF NOT EXISTS xscore_vectors;
CREATE TABLE xscore_vectors.vector (
    login      name    NOT NULL DEFAULT session_user,
    member     text    NOT NULL CHECK (member ~ '^[0-9a-f]{32}$'),     -- hashed user id
    repository text    NOT NULL CHECK (repository ~ '^[0-9a-f]{32}$'), -- keyed digest of the store's id
    embedder   text    NOT NULL,
    text_hash  text    NOT NULL CHECK (text_hash ~ '^[0-9a-f]{32}$'),
    data       halfvec NOT NULL,
    PRIMARY KEY (login, member, repository, embedder, text_hash)
);
ALTER TABLE xscore_vectors.vector ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_vectors.vector FORCE ROW LEVEL SECURITY;
CREATE POLICY vector_of_login ON xscore_vectors.vector
    USING (login = session_user) WITH CHECK (login = session_user);
REVOKE ALL ON xscore_vectors.vector FROM PUBLIC;
-- Where the server is a team's, its members may use it.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'xscore_team_member') THEN
        GRANT USAGE ON SCHEMA xscore_vectors TO xscore_team_member;
        GRANT SELECT, INSERT, UPDATE, DELETE ON xscore_vectors.vector TO xscore_team_member;
    END IF;
END $$;
