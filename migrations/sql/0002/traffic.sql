-- The structure of traffic, read from the events alone: a call is recorded once and correlated
-- once, a turn is judged once, a batch is held by one trainer at a time. What binds to what, and
-- what the votes say, is the fold's business.
--
-- As in the rule of promotion, every look-up by stream ends in ORDER BY version.

-- name: type_at
-- The type of the event with this version of a stream; null if there is none.
create function reef.type_at(of_scenario text, of_stream text, of_version integer) returns text
language plpgsql
as $$
declare
    found_type text;
begin
    select type
        into found_type
        from events
        where scenario = of_scenario and stream = of_stream and version = of_version
        order by version;
    return found_type;
end
$$

-- name: has_event
create function reef.has_event(of_scenario text, of_stream text, of_type text) returns boolean
language plpgsql
as $$
begin
    perform from events
        where scenario = of_scenario and stream = of_stream and type = of_type
        order by version
        limit 1;
    return found;
end
$$

-- name: correlation_reasons
create function reef.correlation_reasons(
    of_type text, of_scenario text, of_stream text, of_version integer, data jsonb
) returns text[]
language plpgsql
as $$
begin
    if of_version = 1 then
        return '{unknown-turn}';
    end if;
    if of_version <> 2 then
        return '{correlated}';
    end if;
    if of_type = 'turn.bound'
        and type_at(of_scenario, 'session/' || (data ->> 'follows'), 1)
            is distinct from 'interaction.recorded'
    then
        return '{no-reply}';
    end if;
    return '{}';
end
$$

-- name: turn_reasons
create function reef.turn_reasons(
    of_type text, of_scenario text, of_stream text, data jsonb
) returns text[]
language plpgsql
as $$
declare
    recorded text := type_at(of_scenario, 'session/' || (data ->> 'turn_id'), 1);
    judged boolean := has_event(of_scenario, of_stream, 'turn.judged');
begin
    if recorded is null then
        return '{unknown-turn}';
    end if;
    case of_type
        when 'turn.judged', 'turn.judging_failed' then
            if recorded <> 'interaction.recorded' then
                return '{not-completed}';
            end if;
            return case when judged then '{judged}' else '{}' end;
        when 'report.received' then
            return case
                when has_event(of_scenario, of_stream, 'report.received') then '{reported}'
                else '{}'
            end;
        else
            return case when judged then '{}' else '{no-sample}' end;
    end case;
end
$$

-- name: batch_reasons
-- The last event of a batch's stream tells who holds it.
create function reef.batch_reasons(
    of_type text, of_scenario text, of_stream text, of_version integer, data jsonb
) returns text[]
language plpgsql
as $$
declare
    last_event record;
    held_by text;
begin
    if of_type = 'batch.formed' then
        return case when of_version = 1 then '{}' else '{known-batch}' end;
    end if;
    select type, event_data(body) as data
        into last_event
        from events
        where scenario = of_scenario and stream = of_stream
        order by version desc
        limit 1;
    if not found then
        return '{unknown-batch}';
    end if;
    if last_event.type = 'batch.released'
        and last_event.data ->> 'reason' in ('stale', 'body-missing')
    then
        return '{batch-ended}';
    end if;
    if last_event.type = 'batch.claimed' then
        held_by := last_event.data ->> 'lease_id';
    end if;
    if of_type = 'batch.claimed' then
        return case
            when held_by is null or held_by = data ->> 'lease_id' then '{}'
            else '{claimed}'
        end;
    end if;
    return case
        when held_by is distinct from data ->> 'lease_id' then '{other-lease}'
        else '{}'
    end;
end
$$

-- name: release_rule_reasons
-- The rule of the revision before keeps its text and gets another name.
alter function reef.rule_reasons(text, text, text, integer, text, jsonb)
    rename to release_rule_reasons

-- name: rule_reasons
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
declare
    reasons text[] := release_rule_reasons(
        of_type, of_scenario, of_stream, of_version, subject, data);
begin
    if cardinality(reasons) > 0 then
        return reasons;
    end if;
    case of_type
        when 'interaction.recorded', 'interaction.failed' then
            return case when of_version = 1 then '{}' else '{known-interaction}' end;
        when 'turn.bound', 'turn.unbound' then
            return correlation_reasons(of_type, of_scenario, of_stream, of_version, data);
        when 'session.expired' then
            if type_at(of_scenario, of_stream, 2) is null
                or has_event(of_scenario, of_stream, 'session.expired')
            then
                return '{not-open}';
            end if;
            return '{}';
        when 'turn.judged', 'turn.judging_failed', 'report.received', 'sample.refused' then
            return turn_reasons(of_type, of_scenario, of_stream, data);
        when 'batch.formed', 'batch.claimed', 'batch.released' then
            return batch_reasons(of_type, of_scenario, of_stream, of_version, data);
        else
            return reasons;
    end case;
end
$$
