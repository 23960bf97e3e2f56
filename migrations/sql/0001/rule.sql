-- The structure of the one rule, read from the events alone: what a gate and a pointer event
-- must stand on. Signatures, verdicts and policies are the fold's business; here it is made
-- impossible to append, with the service's password and SQL by hand, what has no basis in the
-- log. Each function returns every reason against, as 'code' or 'code where'.
--
-- Every look-up by stream ends in ORDER BY version: only the index (scenario, stream, version)
-- gives that order, so that a plan made while the table was empty cannot pick the index
-- (scenario, position) and then read all of a scenario for ever.
--
-- The functions stay VOLATILE: each statement must see what the same call appended before.

-- name: event_data
create function reef.event_data(body bytea) returns jsonb
language sql immutable parallel safe
return pg_catalog.convert_from(body, 'UTF8')::jsonb -> 'data'

-- name: last_pointer
-- The channel's last pointer event: the release it serves. No row: nothing is served.
create function reef.last_pointer(
    of_scenario text, of_channel text, out at_position bigint, out release_id text
)
language plpgsql
as $$
begin
    select position, event_data(body) ->> 'release_id'
        into at_position, release_id
        from events
        where scenario = of_scenario
            and stream = 'release/' || of_channel
            and type in ('release.promoted', 'release.rolled_back')
        order by version desc
        limit 1;
end
$$

-- name: key_revoked
create function reef.key_revoked(of_key text) returns boolean
language plpgsql
as $$
begin
    perform from events
        where scenario = '_'
            and stream = 'trust'
            and type = 'key.revoked'
            and event_data(body) ->> 'key_id' = of_key
        order by version
        limit 1;
    return found;
end
$$

-- name: release_revoked
-- A candidate and the release it becomes have one id; revoking either counts for both.
create function reef.release_revoked(of_scenario text, of_release text) returns boolean
language plpgsql
as $$
begin
    perform from events
        where scenario = of_scenario
            and stream = 'candidate/' || of_release
            and type = 'candidate.revoked'
        order by version
        limit 1;
    if found then
        return true;
    end if;
    perform from events
        where scenario = of_scenario
            and stream = 'release/' || of_release
            and type = 'release.revoked'
        order by version
        limit 1;
    return found;
end
$$

-- name: revocation_reasons
-- Against serving a release: it is revoked, or the key of its newest signature is, or either
-- of the full release under an adapter. One level and no recursion: a full release has nothing
-- under it, and a forged circle must not exhaust the stack.
create function reef.revocation_reasons(of_scenario text, of_release text) returns text[]
language plpgsql
as $$
declare
    reasons text[] := '{}';
    foundation text;
    release text;
    place text;
    signing_key text;
begin
    select event_data(body) ->> 'foundation'
        into foundation
        from events
        where scenario = of_scenario
            and stream = 'candidate/' || of_release
            and type = 'candidate.submitted'
        order by version
        limit 1;
    foreach release in array array_remove(array[of_release, foundation], null) loop
        place := case when release = of_release then '' else ' foundation' end;
        if release_revoked(of_scenario, release) then
            reasons := reasons || ('revoked' || place);
        end if;
        signing_key := null;
        select event_data(body) ->> 'key_id'
            into signing_key
            from events
            where scenario = of_scenario
                and stream = 'release/' || release
                and type = 'release.signed'
            order by version desc
            limit 1;
        if key_revoked(signing_key) then
            reasons := reasons || ('key-revoked' || place);
        end if;
    end loop;
    return reasons;
end
$$

-- name: gate_opening_reasons
create function reef.gate_opening_reasons(
    of_scenario text, of_version integer, data jsonb
) returns text[]
language plpgsql
as $$
declare
    reasons text[] := '{}';
    serving record;
begin
    if of_version <> 1 then
        return '{known-gate}';
    end if;
    perform from events
        where scenario = of_scenario
            and stream = 'candidate/' || (data ->> 'candidate_id')
            and type = 'candidate.admitted'
        order by version
        limit 1;
    if not found then
        reasons := reasons || 'not-admitted'::text;
    end if;
    reasons := reasons || revocation_reasons(of_scenario, data ->> 'candidate_id');
    serving := last_pointer(of_scenario, data ->> 'channel');
    if serving.release_id is distinct from data ->> 'base' then
        reasons := reasons || 'other-base'::text;
    end if;
    return reasons;
end
$$

-- name: gate_course_reasons
-- Trials and the end of a gate. The first event of a gate's stream is its gate.opened, and
-- nothing follows its end, so the two ends of the stream tell all.
create function reef.gate_course_reasons(
    of_type text, of_scenario text, of_stream text, data jsonb
) returns text[]
language plpgsql
as $$
declare
    opened record;
    serving record;
    last_type text;
begin
    select position, event_data(body) as data
        into opened
        from events
        where scenario = of_scenario and stream = of_stream and version = 1
        order by version;
    if not found then
        return '{unknown-gate}';
    end if;
    select type
        into last_type
        from events
        where scenario = of_scenario and stream = of_stream
        order by version desc
        limit 1;
    if last_type not in ('gate.opened', 'gate.trial') then
        return '{gate-closed}';
    end if;
    if of_type = 'gate.stale' then
        serving := last_pointer(of_scenario, opened.data ->> 'channel');
        if to_jsonb(serving.at_position) is distinct from data -> 'pointer_position' then
            return '{pointer}';
        end if;
        return case when serving.at_position > opened.position then '{}' else '{not-stale}' end;
    end if;
    if of_type <> 'gate.trial'
        and (data ->> 'candidate_id', data ->> 'base', data ->> 'channel')
            is distinct from (
                opened.data ->> 'candidate_id', opened.data ->> 'base', opened.data ->> 'channel')
    then
        return '{other-gate}';
    end if;
    return '{}';
end
$$

-- name: passed_gate
-- Where the gate was opened, and for what it passed; nulls if it did not pass.
create function reef.passed_gate(
    of_scenario text, of_gate text, out opened_position bigint, out data jsonb
)
language plpgsql
as $$
begin
    select event_data(body)
        into data
        from events
        where scenario = of_scenario and stream = 'gate/' || of_gate and type = 'gate.passed'
        order by version desc
        limit 1;
    if found then
        select position
            into opened_position
            from events
            where scenario = of_scenario and stream = 'gate/' || of_gate and version = 1
            order by version;
    end if;
end
$$

-- name: signing_reasons
create function reef.signing_reasons(of_scenario text, data jsonb) returns text[]
language plpgsql
as $$
declare
    reasons text[] := '{}';
    gate record;
begin
    gate := passed_gate(of_scenario, data ->> 'gate_id');
    if gate.opened_position is null then
        return '{no-passed-gate}';
    end if;
    if gate.data ->> 'candidate_id' is distinct from data ->> 'release_id' then
        reasons := reasons || 'other-gate'::text;
    end if;
    reasons := reasons || revocation_reasons(of_scenario, data ->> 'release_id');
    if key_revoked(data ->> 'key_id') then
        reasons := reasons || 'key-revoked'::text;
    end if;
    return reasons;
end
$$

-- name: promotion_reasons
-- A gate is used up by its own promotion: that is a pointer event after its gate.opened.
create function reef.promotion_reasons(of_scenario text, data jsonb) returns text[]
language plpgsql
as $$
declare
    reasons text[] := '{}';
    gate record;
    serving record;
    standing text;
begin
    gate := passed_gate(of_scenario, data ->> 'gate_id');
    if gate.opened_position is null then
        return '{no-passed-gate}';
    end if;
    if (gate.data ->> 'candidate_id', gate.data ->> 'base', gate.data ->> 'channel')
        is distinct from (data ->> 'release_id', data ->> 'base', data ->> 'channel')
    then
        reasons := reasons || 'other-gate'::text;
    end if;
    serving := last_pointer(of_scenario, data ->> 'channel');
    if serving.at_position > gate.opened_position then
        reasons := reasons || format('stale-gate position %s', serving.at_position);
    end if;
    perform from events
        where scenario = of_scenario
            and stream = 'release/' || (data ->> 'release_id')
            and type = 'release.signed'
            and event_data(body) ->> 'gate_id' = data ->> 'gate_id'
        order by version desc
        limit 1;
    if not found then
        reasons := reasons || 'not-signed'::text;
    end if;
    reasons := reasons || revocation_reasons(of_scenario, data ->> 'release_id');
    select type
        into standing
        from events
        where scenario = of_scenario
            and stream = 'scenario'
            and type in ('scenario.held', 'scenario.resumed')
        order by version desc
        limit 1;
    if standing = 'scenario.held' then
        reasons := reasons || 'held'::text;
    end if;
    return reasons;
end
$$

-- name: rollback_reasons
-- A hold blocks promotion, not rollback.
create function reef.rollback_reasons(
    of_scenario text, of_stream text, data jsonb
) returns text[]
language plpgsql
as $$
declare
    reasons text[] := '{}';
    serving record;
begin
    perform from events
        where scenario = of_scenario
            and stream = of_stream
            and type = 'release.promoted'
            and event_data(body) ->> 'release_id' = data ->> 'release_id'
        order by version
        limit 1;
    if not found then
        return '{never-promoted}';
    end if;
    serving := last_pointer(of_scenario, data ->> 'channel');
    if serving.release_id = data ->> 'release_id' then
        reasons := reasons || 'already-serving'::text;
    end if;
    if btrim(coalesce(data ->> 'reason', '')) = '' then
        reasons := reasons || 'no-reason'::text;
    end if;
    return reasons || revocation_reasons(of_scenario, data ->> 'release_id');
end
$$

-- name: rule_reasons
-- Every reason against one event of a type whose event_types.ruled is true. of_version is the
-- version it would get, subject the data's field that names its stream.
create function reef.rule_reasons(
    of_type text,
    of_scenario text,
    of_stream text,
    of_version integer,
    subject text,
    data jsonb
) returns text[]
language plpgsql
as $$
begin
    -- A revocation of one candidate must not hide in the stream of another.
    if subject is not null
        and split_part(of_stream, '/', 2) is distinct from data ->> subject
    then
        return '{other-stream}';
    end if;
    case of_type
        when 'scenario.created' then
            return case when of_version = 1 then '{}' else '{known-scenario}' end;
        when 'candidate.admitted' then
            perform from events
                where scenario = of_scenario
                    and stream = of_stream
                    and type = 'candidate.submitted'
                order by version
                limit 1;
            return case when found then '{}' else '{not-submitted}' end;
        when 'gate.opened' then
            return gate_opening_reasons(of_scenario, of_version, data);
        when 'gate.trial', 'gate.passed', 'gate.failed', 'gate.inconclusive', 'gate.errored',
            'gate.stale'
        then
            return gate_course_reasons(of_type, of_scenario, of_stream, data);
        when 'release.signed' then
            return signing_reasons(of_scenario, data);
        when 'release.promoted' then
            return promotion_reasons(of_scenario, data);
        when 'release.rolled_back' then
            return rollback_reasons(of_scenario, of_stream, data);
        else
            return '{}';
    end case;
end
$$
