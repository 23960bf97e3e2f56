-- Triggers that keep the log append-only even against the role that owns it.
-- All are ENABLE ALWAYS: an ordinary trigger does not fire under
-- session_replication_role = replica. (So these tables can be replicated physically, not by
-- logical replication.) A superuser can drop them; that is what the Merkle tree and its
-- published checkpoints are for.

-- name: refuse_change
create function reef.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = 'insufficient_privilege',
        message = format('%s of reef.%s is refused: the log is append-only', tg_op, tg_table_name),
        hint = 'Append an event that corrects what stands there.';
end
$$

-- name: only_by_append
-- The one writer is known by the call stack, because a setting could be set by anybody.
create function reef.only_by_append() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    stack text;
begin
    get diagnostics stack = pg_context;
    if strpos(stack, 'append_events(uuid[]') = 0 then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format(
                '%s of reef.%s by hand is refused: only append_events writes the log',
                tg_op, tg_table_name),
            hint = 'Call reef.append_events.';
    end if;
    return null;
end
$$

-- name: events_never_change
create trigger events_never_change
    before update or delete or truncate on reef.events
    for each statement execute function reef.refuse_change()

-- name: events_never_change_always
alter table reef.events enable always trigger events_never_change

-- name: events_only_by_append
-- Once per statement, about 1 µs per event.
create trigger events_only_by_append
    before insert on reef.events
    for each statement execute function reef.only_by_append()

-- name: events_only_by_append_always
alter table reef.events enable always trigger events_only_by_append

-- name: head_stays
create trigger head_stays
    before insert or delete or truncate on reef.head
    for each statement execute function reef.refuse_change()

-- name: head_stays_always
alter table reef.head enable always trigger head_stays

-- name: head_only_by_append
create trigger head_only_by_append
    before update on reef.head
    for each statement execute function reef.only_by_append()

-- name: head_only_by_append_always
alter table reef.head enable always trigger head_only_by_append
