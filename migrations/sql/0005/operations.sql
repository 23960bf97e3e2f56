-- Approvals and the watch, read from the events alone: who approved of what passed, and that the
-- watch speaks of what is served. Signatures, verdicts and the evidence are the fold's business.
--
-- As in the rule of promotion, every look-up by stream ends in ORDER BY version.

-- name: approvals_wanted
-- How many people must approve of what passed a gate, by the policy that its gate.opened names;
-- null if no such policy stands before that. The payload must have the digest: else a policy of
-- the same name by another hand could say 0.
create function reef.approvals_wanted(of_scenario text, of_gate text) returns integer
language plpgsql
as $$
declare
    opened record;
    policy record;
    document bytea;
begin
    select position, event_data(body) ->> 'policy_digest' as digest
        into opened
        from events
        where scenario = of_scenario and stream = 'gate/' || of_gate and version = 1
        order by version;
    for policy in
        select event_data(body) -> 'policy' ->> 'payload' as payload
            from events
            where scenario = of_scenario
                and stream = 'scenario'
                and type in ('scenario.created', 'policy.changed')
                and position < opened.position
                and event_data(body) ->> 'policy_digest' = opened.digest
            order by version
    loop
        begin
            document := decode(policy.payload, 'base64');
            if encode(sha256(document), 'hex') = opened.digest then
                return coalesce(
                    (convert_from(document, 'UTF8')::jsonb ->> 'approvals')::integer, 0);
            end if;
        exception when data_exception or program_limit_exceeded then
            null;  -- what was written there by hand is no policy, and hides none
        end;
    end loop;
    return null;
end
$$

-- name: approval_reasons
-- Each person counts once, however often they approve.
create function reef.approval_reasons(of_scenario text, data jsonb) returns text[]
language plpgsql
as $$
declare
    wanted integer := approvals_wanted(of_scenario, data ->> 'gate_id');
    given integer;
begin
    if wanted is null then
        return '{other-policy}';
    end if;
    if wanted <= 0 then
        return '{}';
    end if;
    select count(distinct convert_from(body, 'UTF8')::jsonb ->> 'actor')
        into given
        from (
            select body
                from events
                where scenario = of_scenario
                    and stream = 'release/' || (data ->> 'release_id')
                    and type = 'release.approved'
                    and event_data(body) ->> 'gate_id' = data ->> 'gate_id'
                order by version
        ) approved;
    return case when given < wanted then '{not-approved}' else '{}' end;
end
$$

-- name: unapproved_promotion_reasons
-- The rule of the revision before keeps its text and gets another name.
alter function reef.promotion_reasons(text, jsonb) rename to unapproved_promotion_reasons

-- name: promotion_reasons
create function reef.promotion_reasons(of_scenario text, data jsonb) returns text[]
language plpgsql
as $$
declare
    reasons text[] := unapproved_promotion_reasons(of_scenario, data);
begin
    if 'no-passed-gate' = any (reasons) then
        return reasons;
    end if;
    return reasons || approval_reasons(of_scenario, data);
end
$$

-- name: approving_reasons
create function reef.approving_reasons(of_scenario text, data jsonb) returns text[]
language plpgsql
as $$
declare
    gate record;
begin
    gate := passed_gate(of_scenario, data ->> 'gate_id');
    if gate.opened_position is null then
        return '{no-passed-gate}';
    end if;
    if gate.data ->> 'candidate_id' is distinct from data ->> 'release_id' then
        return '{other-gate}';
    end if;
    if btrim(coalesce(data ->> 'reason', '')) = '' then
        return '{no-reason}';
    end if;
    return revocation_reasons(of_scenario, data ->> 'release_id');
end
$$

-- name: watch_reasons
-- The watch is of the pointer event that serves now, and nothing follows its end.
create function reef.watch_reasons(of_scenario text, of_stream text, data jsonb) returns text[]
language plpgsql
as $$
declare
    serving record;
begin
    serving := last_pointer(of_scenario, data ->> 'channel');
    if serving.at_position is null
        or to_jsonb(serving.at_position) is distinct from data -> 'pointer_position'
        or serving.release_id is distinct from data ->> 'release_id'
    then
        return '{pointer}';
    end if;
    if has_event(of_scenario, of_stream, 'watch.fallen') then
        return '{watch-over}';
    end if;
    return '{}';
end
$$

-- name: learning_rule_reasons
alter function reef.rule_reasons(text, text, text, integer, text, jsonb)
    rename to learning_rule_reasons

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
    reasons text[] := learning_rule_reasons(
        of_type, of_scenario, of_stream, of_version, subject, data);
begin
    if cardinality(reasons) > 0 then
        return reasons;
    end if;
    case of_type
        when 'release.approved' then
            return approving_reasons(of_scenario, data);
        when 'watch.trial', 'watch.fallen' then
            return watch_reasons(of_scenario, of_stream, data);
        else
            return reasons;
    end case;
end
$$
