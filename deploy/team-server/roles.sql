-- Rights in the database of a team, for PostgreSQL. Run it as the owner of the tables when they have been made, and
-- again after an update of Goalwright. Then give each user a role: CREATE ROLE ann LOGIN PASSWORD '…' IN ROLE goalwright_writer;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['goalwright_writer', 'goalwright_reader', 'goalwright_cleaner'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
    END LOOP;
END
$$;

REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC;
GRANT SELECT ON alembic_version, deleted TO goalwright_writer, goalwright_reader;

-- A daemon adds sessions and what happens in them. It changes no event and deletes nothing.
GRANT SELECT, INSERT, UPDATE ON traces, messages, texts, attachments TO goalwright_writer;
GRANT SELECT, INSERT ON events TO goalwright_writer;
GRANT USAGE ON SEQUENCE texts_id_seq TO goalwright_writer;

-- The shared server reads everything, tokens too, and changes nothing.
GRANT SELECT ON traces, events, messages, texts, attachments, tokens TO goalwright_reader;

-- A server that deletes old sessions, or those that its users delete, has this role, too. Locking needs an UPDATE right.
GRANT DELETE, UPDATE (status) ON traces TO goalwright_cleaner;
GRANT SELECT, INSERT, UPDATE ON deleted TO goalwright_cleaner;

-- The policy below asks for another row of its own table, so it needs a function that reads all rows.
CREATE OR REPLACE FUNCTION goalwright_owner(trace text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS 'SELECT owner FROM public.traces WHERE id = split_part(trace, '':'', 1)';
REVOKE ALL ON FUNCTION goalwright_owner(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION goalwright_owner(text) TO goalwright_writer;

-- A writer reaches the sessions that carry the name of the role, and adds branches to them only.
ALTER TABLE traces ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON traces;
CREATE POLICY own ON traces TO goalwright_writer USING (owner = current_user)
    WITH CHECK (owner = current_user AND (position(':' IN id) = 0 OR goalwright_owner(id) = current_user));
DROP POLICY IF EXISTS everything ON traces;
CREATE POLICY everything ON traces FOR SELECT TO goalwright_reader USING (true);
DROP POLICY IF EXISTS cleaning ON traces;
CREATE POLICY cleaning ON traces TO goalwright_cleaner USING (true);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['events', 'messages', 'texts', 'attachments'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('DROP POLICY IF EXISTS own ON %I', name);
        EXECUTE format(
            'CREATE POLICY own ON %1$I TO goalwright_writer USING (EXISTS (SELECT FROM traces WHERE id = %1$I.trace))',
            name
        );
        EXECUTE format('DROP POLICY IF EXISTS everything ON %I', name);
        EXECUTE format('CREATE POLICY everything ON %I FOR SELECT TO goalwright_reader USING (true)', name);
    END LOOP;
END
$$;
