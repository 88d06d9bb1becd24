-- Marks of erased memories are removed once they are old (`xscore shared prune`). A machine that was away for longer
-- would keep such a memory for good, so the project says up to which version marks are missing: who has pulled less
-- compares all that it has with what is here.

ALTER TABLE xscore_team.project ADD COLUMN pruned bigint NOT NULL DEFAULT 0;

-- Whether marks were removed before is not known. The owner sees no row either, unless the security is not forced.
ALTER TABLE xscore_team.project NO FORCE ROW LEVEL SECURITY;
UPDATE xscore_team.project SET pruned = version;
ALTER TABLE xscore_team.project FORCE ROW LEVEL SECURITY;

-- What an administrator removes who is no superuser: marks, which have no content, and nothing else. The owner sees how
-- far members have pulled in the one organisation that its transaction names.
CREATE POLICY entry_of_owner ON xscore_team.entry TO xscore_team_owner
    USING (content IS NULL AND organisation = current_setting('xscore.organisation', true));
CREATE POLICY reader_of_owner ON xscore_team.reader FOR SELECT TO xscore_team_owner
    USING (organisation = current_setting('xscore.organisation', true));
CREATE POLICY project_of_owner ON xscore_team.project TO xscore_team_owner
    USING (organisation = current_setting('xscore.organisation', true));

-- What was removed where the server has no judgments; otherwise it is noted in xscore.removal.
CREATE TABLE xscore_team.removal (
    at           timestamptz NOT NULL DEFAULT now(),
    removed_by   name        NOT NULL DEFAULT session_user,
    tenant       text        NOT NULL,
    unused_days  integer     NOT NULL,
    turns        bigint      NOT NULL,
    judgments    bigint      NOT NULL,
    marks        bigint      NOT NULL
);
ALTER TABLE xscore_team.removal ENABLE ROW LEVEL SECURITY;
ALTER TABLE xscore_team.removal FORCE ROW LEVEL SECURITY;
CREATE POLICY removal_of_owner ON xscore_team.removal TO xscore_team_owner USING (true) WITH CHECK (true);
REVOKE ALL ON xscore_team.removal FROM PUBLIC;

-- Clients of the first schema go on; a machine of theirs that was away for long keeps what was erased meanwhile.
UPDATE xscore_team.version SET number = 3, serves_from = 1;
