-- Who owns the log and who may use it.

-- name: create_roles
-- Roles belong to the whole cluster, not to this database: the migration of another database
-- may be creating them at this moment, and the loser of that race must go on.
do $$
declare
    wanted text;
begin
    foreach wanted in array array['reef_owner', 'reef_service'] loop
        if not exists (select from pg_roles where rolname = wanted) then
            begin
                execute format('create role %I nologin', wanted);
            exception when duplicate_object or unique_violation then
                null;
            end;
        end if;
    end loop;
    -- A superuser may act as any role; anybody else must belong to it to hand tables over.
    if not (select rolsuper from pg_roles where rolname = current_user) then
        begin
            execute format('grant reef_owner to %I', current_user);
        exception when duplicate_object or unique_violation then
            null;
        end;
    end if;
end
$$

-- name: own_schema
alter schema reef owner to reef_owner

-- name: revoke_default_execute
-- A new function is executable by everybody unless its owner's defaults say otherwise.
alter default privileges for role reef_owner revoke execute on functions from public
