-- zk's part of a PostgreSQL engine, beside Absurd: what a list shows, children, schedules and names of workers.
--
-- A run is a task of Absurd, and a leg is a claim on it: Absurd holds leases, parked runs and retries. Every change is one
-- statement, which changes both or neither. Names and ids alone are stored. All times are of the server's clock.

create schema zk_fleet;

create table zk_fleet.installed (
    version integer not null
);

-- Queues of Absurd, one for each queue, priority and job format that runs have. An older zk does not look into those of a
-- newer format.
create table zk_fleet.queues (
    number integer generated always as identity primary key,
    name text not null,
    priority integer not null,
    format integer not null,
    unique (name, priority, format)
);

create table zk_fleet.runs (
    seq bigint generated always as identity primary key,
    run text not null unique,
    session text not null,
    job text not null,
    queue integer not null references zk_fleet.queues (number),
    tenant text,
    parent text,
    -- Task of Absurd, and its run that the present leg has claimed.
    task uuid unique,
    claim uuid,
    phase text not null check (phase in ('queued', 'running', 'parked', 'done', 'failed', 'cancelled')),
    wait jsonb,
    until timestamptz,
    -- Event of Absurd that ends the wait.
    wake_event text,
    token bigint not null default 0,
    legs bigint not null default 0,
    worker text,
    deaths integer not null default 0,
    is_woken boolean not null default false,
    is_cancelled boolean not null default false,
    failure jsonb,
    submitted timestamptz not null default clock_timestamp(),
    changed timestamptz not null default clock_timestamp()
) with (fillfactor = 70);
create index runs_unfinished on zk_fleet.runs (queue, phase) where phase in ('queued', 'running', 'parked');
-- A session has one unfinished run: two would write into each other's turns.
create unique index runs_of_session on zk_fleet.runs (session) where phase in ('queued', 'running', 'parked');
create index runs_until on zk_fleet.runs (until) where phase = 'parked' and until is not null;
create index runs_by_parent on zk_fleet.runs (parent) where parent is not null;
create index runs_finished on zk_fleet.runs (changed) where phase in ('done', 'failed', 'cancelled');

create table zk_fleet.workers (
    name text primary key,
    is_draining boolean not null default false
);

create table zk_fleet.schedules (
    name text primary key,
    plan text not null,
    due timestamptz not null
);

-- Tokens of leases, over all runs: a store compares them per session, and a session may have several runs.
create sequence zk_fleet.tokens as bigint;

-- Raises the next token to the date in milliseconds, so that a database from a backup, or a new one, continues above the
-- tokens of a lost one.
create function zk_fleet.raise_tokens()
    returns void
    language plpgsql
as $$
declare
    v_date bigint := floor(extract(epoch from clock_timestamp()) * 1000);
    v_last bigint;
begin
    perform pg_advisory_xact_lock(31339, 1);
    select last_value into v_last from zk_fleet.tokens;
    if v_last < v_date - 60000 then
        perform setval('zk_fleet.tokens', v_date);
    end if;
end;
$$;

create function zk_fleet.absurd_queue(p_number integer)
    returns text
    language sql
    immutable
as $$
    select 'zk_' || p_number;
$$;

-- Wakes the workers once the transaction is committed.
create function zk_fleet.ring()
    returns void
    language sql
as $$
    select pg_notify('zk_fleet', '');
$$;

-- Returns the number of a queue, and makes it if it is new.
create function zk_fleet.queue_number(p_name text, p_priority integer, p_format integer)
    returns integer
    language plpgsql
as $$
declare
    v_number integer;
begin
    select number into v_number from zk_fleet.queues
        where name = p_name and priority = p_priority and format = p_format;
    if v_number is null then
        perform pg_advisory_xact_lock(31339, 2);
        select number into v_number from zk_fleet.queues
            where name = p_name and priority = p_priority and format = p_format;
    end if;
    if v_number is null then
        insert into zk_fleet.queues (name, priority, format) values (p_name, p_priority, p_format)
            returning number into v_number;
        perform absurd.create_queue(zk_fleet.absurd_queue(v_number));
    end if;
    return v_number;
end;
$$;

-- Locks a run after its parent, which the end of the run may wake. `take_runs` locks in the order of its claims
-- instead, and a statement that a deadlock ends is repeated.
create function zk_fleet.lock_run(p_run text)
    returns zk_fleet.runs
    language plpgsql
as $$
declare
    r zk_fleet.runs;
begin
    select * into r from zk_fleet.runs where run = p_run;
    if r.parent is not null then
        perform 1 from zk_fleet.runs where run = r.parent for update;
    end if;
    select * into r from zk_fleet.runs where run = p_run for update;
    return r;
end;
$$;

-- Whether all runs of a wait for children have ended. Unknown runs count as ended.
create function zk_fleet.are_finished(p_wait jsonb)
    returns boolean
    language sql
    stable
as $$
    select not exists (
        select 1 from zk_fleet.runs
            where run in (select jsonb_array_elements_text(p_wait -> 'of'))
            and phase in ('queued', 'running', 'parked')
    );
$$;

-- Ends the wait of a parked run, which the caller has locked.
create function zk_fleet.release(r zk_fleet.runs)
    returns void
    language plpgsql
as $$
begin
    perform absurd.emit_event(zk_fleet.absurd_queue(r.queue), r.wake_event);
    update zk_fleet.runs
        set phase = 'queued', wait = null, until = null, wake_event = null, changed = clock_timestamp()
        where seq = r.seq;
    perform zk_fleet.ring();
end;
$$;

-- Ends a run that the caller has locked, and releases its parent if that waited for this end.
create function zk_fleet.finish(r zk_fleet.runs, p_phase text, p_failure jsonb)
    returns void
    language plpgsql
as $$
declare
    v_parent zk_fleet.runs;
begin
    if r.phase = 'running' and r.claim is not null then
        perform absurd.complete_run(zk_fleet.absurd_queue(r.queue), r.claim, jsonb_build_object('phase', p_phase));
    elsif r.task is not null then
        perform absurd.cancel_task(zk_fleet.absurd_queue(r.queue), r.task);
    end if;
    update zk_fleet.runs
        set phase = p_phase, failure = p_failure, wait = null, until = null, wake_event = null, claim = null,
            is_woken = false, is_cancelled = false, changed = clock_timestamp()
        where seq = r.seq;
    if r.parent is not null then
        select * into v_parent from zk_fleet.runs where run = r.parent for update;
        if v_parent.phase = 'parked' and v_parent.wait ->> 'for' = 'children'
            and zk_fleet.are_finished(v_parent.wait) then
            perform zk_fleet.release(v_parent);
        end if;
    end if;
end;
$$;

-- Adds a run: `new`, `same` for a job that is known, `other` if the run has another job, `taken` with the unfinished run that
-- has the session already.
create function zk_fleet.submit_run(
    p_run text, p_session text, p_format integer, p_job text, p_queue text, p_tenant text, p_parent text,
    p_priority integer, out outcome text, out holder text, out holder_phase text
)
    language plpgsql
as $$
declare
    v_queue integer;
    v_seq bigint;
    v_known text;
    v_is_orphan boolean := false;
begin
    loop
        select job into v_known from zk_fleet.runs where run = p_run;
        if found then
            outcome := case when v_known = p_job then 'same' else 'other' end;
            return;
        end if;
        select run, phase into holder, holder_phase from zk_fleet.runs
            where session = p_session and phase in ('queued', 'running', 'parked');
        if found then
            outcome := 'taken';
            return;
        end if;
        if p_parent is not null then
            -- A cancellation of the parent waits for this child, and finds it.
            select phase = 'cancelled' or is_cancelled into v_is_orphan from zk_fleet.runs where run = p_parent for share;
        end if;
        v_queue := zk_fleet.queue_number(p_queue, p_priority, p_format);
        insert into zk_fleet.runs (run, session, job, queue, tenant, parent, phase)
            values (p_run, p_session, p_job, v_queue, p_tenant, p_parent,
                case when v_is_orphan then 'cancelled' else 'queued' end)
            on conflict do nothing returning seq into v_seq;
        exit when v_seq is not null;
        -- Another statement submitted this run, or one of its session, at the same moment: look again.
    end loop;
    outcome := 'new';
    if v_is_orphan is not true then
        update zk_fleet.runs set task = (
            select s.task_id from absurd.spawn_task(
                zk_fleet.absurd_queue(v_queue), 'zk_run', jsonb_build_object('run', p_run),
                jsonb_build_object('idempotency_key', p_run)) s
        ) where seq = v_seq;
        perform zk_fleet.ring();
    end if;
end;
$$;

-- Wakes a run, and returns the phase in which it was; null if there is none.
create function zk_fleet.wake_run(p_run text)
    returns text
    language plpgsql
as $$
declare
    r zk_fleet.runs;
begin
    select * into r from zk_fleet.runs where run = p_run for update;
    if r.phase = 'parked' then
        perform zk_fleet.release(r);
    elsif r.phase = 'running' then
        update zk_fleet.runs set is_woken = true where seq = r.seq;
    end if;
    return r.phase;
end;
$$;

-- Cancels a run and its descendants; false if there is no such run.
create function zk_fleet.cancel_run(p_run text)
    returns boolean
    language plpgsql
as $$
declare
    v_todo text[] := array[p_run];
    v_seen text[] := '{}';
    r zk_fleet.runs;
begin
    if not exists (select 1 from zk_fleet.runs where run = p_run) then
        return false;
    end if;
    while cardinality(v_todo) > 0 loop
        r := zk_fleet.lock_run(v_todo[1]);
        v_seen := v_seen || r.run;
        v_todo := v_todo[2:];
        if r.phase in ('queued', 'parked') then
            perform zk_fleet.finish(r, 'cancelled', null);
        elsif r.phase = 'running' then
            update zk_fleet.runs set is_cancelled = true, changed = clock_timestamp() where seq = r.seq;
        end if;
        -- The lock above keeps further children out.
        v_todo := v_todo || array(
            select run from zk_fleet.runs where parent = r.run and run <> all (v_seen || v_todo) order by seq
        );
    end loop;
    perform zk_fleet.ring();
    return true;
end;
$$;

-- Takes the name of a worker for this connection, until it ends; false if another connection has it.
create function zk_fleet.hold_name(p_worker text)
    returns boolean
    language plpgsql
as $$
begin
    if not pg_try_advisory_lock(31340, hashtext(p_worker)) then
        return false;
    end if;
    insert into zk_fleet.workers (name) values (p_worker) on conflict (name) do nothing;
    return true;
end;
$$;

-- Begins to serve under a name, which was free, and lets the runs go that an earlier process of that name left.
create function zk_fleet.begin_worker(p_worker text)
    returns boolean
    language plpgsql
as $$
declare
    r zk_fleet.runs;
begin
    if not zk_fleet.hold_name(p_worker) then
        return false;
    end if;
    update zk_fleet.workers set is_draining = false where name = p_worker;
    perform zk_fleet.raise_tokens();
    for r in select * from zk_fleet.runs where phase = 'running' and worker = p_worker order by seq for update loop
        begin
            perform absurd.fail_run(
                zk_fleet.absurd_queue(r.queue), r.claim, jsonb_build_object('name', 'worker began anew'),
                clock_timestamp());
        exception when sqlstate 'AB001' or sqlstate 'AB002' then
            -- Its claim is over already.
            null;
        end;
    end loop;
    return true;
end;
$$;

-- Deletes runs that ended more than 30 days ago.
create function zk_fleet.clean_up()
    returns void
    language plpgsql
as $$
begin
    delete from zk_fleet.runs where seq in (
        select seq from zk_fleet.runs
            where phase in ('done', 'failed', 'cancelled') and changed < clock_timestamp() - interval '30 days'
            order by changed limit 1000 for update skip locked
    );
    perform absurd.cleanup_all_queues(zk_fleet.absurd_queue(number)) from zk_fleet.queues order by number;
end;
$$;

create function zk_fleet.end_worker(p_worker text)
    returns void
    language plpgsql
as $$
begin
    delete from zk_fleet.workers where name = p_worker;
    perform pg_advisory_unlock(31340, hashtext(p_worker));
    perform zk_fleet.ring();
end;
$$;

-- Asks workers to drain, and returns their names. Those whose connection is gone are forgotten.
create function zk_fleet.drain_workers(p_worker text)
    returns setof text
    language plpgsql
as $$
declare
    v_name text;
begin
    for v_name in select name from zk_fleet.workers where p_worker is null or name = p_worker order by name loop
        if pg_try_advisory_xact_lock(31340, hashtext(v_name)) then
            delete from zk_fleet.workers where name = v_name;
        else
            update zk_fleet.workers set is_draining = true where name = v_name;
            return next v_name;
        end if;
    end loop;
    perform zk_fleet.ring();
end;
$$;

-- Queues of Absurd that a worker takes from and that may have a run for it: by priority, then by the age of the oldest run.
create function zk_fleet.queues_to_take(p_queues text[], p_format integer)
    returns setof integer
    language sql
    stable
as $$
    select q.number
        from zk_fleet.queues q
        join zk_fleet.runs r on r.queue = q.number
            and (r.phase in ('queued', 'running') or (r.phase = 'parked' and r.until <= clock_timestamp()))
        where (p_queues = '{}' or q.name = any (p_queues)) and q.format <= p_format
        group by q.number, q.priority
        order by q.priority desc, min(r.seq) filter (where r.phase = 'queued') nulls last, q.number;
$$;

-- Looks for what concerns a worker, without a change.
create function zk_fleet.look(
    p_worker text, p_queues text[], p_format integer,
    out is_draining boolean, out is_due boolean, out cancelled_runs text[], out cancelled_tokens bigint[]
)
    language sql
    stable
as $$
    select
        coalesce((select w.is_draining from zk_fleet.workers w where w.name = p_worker), false),
        exists (select 1 from zk_fleet.queues_to_take(p_queues, p_format))
            or exists (select 1 from zk_fleet.schedules s where s.due <= clock_timestamp()),
        coalesce(array_agg(r.run order by r.seq), '{}'),
        coalesce(array_agg(r.token order by r.seq), '{}')
    from zk_fleet.runs r
    where r.phase = 'running' and r.is_cancelled and r.worker = p_worker;
$$;

-- Takes runs for legs of a worker.
create function zk_fleet.take_runs(
    p_worker text, p_lease integer, p_queues text[], p_format integer, p_most integer, p_max_deaths integer
)
    returns table (taken_run text, taken_job text, taken_token bigint, taken_leg bigint)
    language plpgsql
as $$
declare
    v_queue integer;
    v_left integer := p_most;
    v_claimed integer;
    v_token bigint;
    c record;
    r zk_fleet.runs;
begin
    for r in
        select * from zk_fleet.runs where phase = 'parked' and until <= clock_timestamp()
            order by until for update skip locked
    loop
        perform zk_fleet.release(r);
    end loop;
    for v_queue in select * from zk_fleet.queues_to_take(p_queues, p_format) loop
        loop
            exit when v_left = 0;
            v_claimed := 0;
            for c in
                select * from absurd.claim_task(zk_fleet.absurd_queue(v_queue), p_worker, p_lease, v_left)
            loop
                v_claimed := v_claimed + 1;
                select * into r from zk_fleet.runs where task = c.task_id for update;
                if r.seq is null then
                    -- A task that nobody submitted as a run.
                    perform absurd.cancel_task(zk_fleet.absurd_queue(v_queue), c.task_id);
                    continue;
                end if;
                r.claim := c.run_id;
                if r.phase = 'running' then
                    -- The worker of the leg before is gone.
                    r.deaths := r.deaths + 1;
                    if r.is_cancelled then
                        perform zk_fleet.finish(r, 'cancelled', null);
                        continue;
                    elsif r.deaths >= p_max_deaths then
                        perform zk_fleet.finish(
                            r, 'failed', jsonb_build_object('why', 'deaths', 'of', r.deaths));
                        continue;
                    end if;
                end if;
                v_token := nextval('zk_fleet.tokens');
                update zk_fleet.runs
                    set phase = 'running', claim = r.claim, deaths = r.deaths, token = v_token, legs = legs + 1,
                        worker = p_worker, is_woken = false, wait = null, until = null, wake_event = null,
                        changed = clock_timestamp()
                    where seq = r.seq;
                taken_run := r.run;
                taken_job := r.job;
                taken_token := v_token;
                taken_leg := r.legs + 1;
                v_left := v_left - 1;
                return next;
            end loop;
            exit when v_claimed = 0;
        end loop;
    end loop;
end;
$$;

-- Renews the claim of a leg; false if another worker has the run, or Absurd gave it up.
create function zk_fleet.extend(r zk_fleet.runs, p_lease integer)
    returns boolean
    language plpgsql
as $$
begin
    perform absurd.extend_claim(zk_fleet.absurd_queue(r.queue), r.claim, p_lease);
    return true;
-- Absurd has no code of its own for a claim that ended otherwise.
exception when sqlstate 'AB001' or sqlstate 'AB002' or raise_exception then
    return false;
end;
$$;

-- Renews leases of legs: `held`, `cancelled` if the run is being cancelled, `lost`.
create function zk_fleet.renew_leases(p_runs text[], p_tokens bigint[], p_lease integer)
    returns table (renewed_run text, renewed_token bigint, outcome text)
    language plpgsql
as $$
declare
    r zk_fleet.runs;
begin
    for renewed_run, renewed_token in select * from unnest(p_runs, p_tokens) as leg (run, token) order by 1 loop
        select * into r from zk_fleet.runs
            where run = renewed_run and token = renewed_token and phase = 'running';
        if r.seq is null or not zk_fleet.extend(r, p_lease) then
            outcome := 'lost';
        else
            outcome := case when r.is_cancelled then 'cancelled' else 'held' end;
        end if;
        return next;
    end loop;
end;
$$;

-- Records the end of a leg; false if another worker has the run by then. `p_kind` is `end` with a phase, `queue`, `pause` or
-- `park`; the wait ends after `p_seconds`, if that is not null. `p_deaths` is the number of lost legs in a row by now.
create function zk_fleet.end_leg(
    p_run text, p_token bigint, p_kind text, p_phase text, p_failure jsonb, p_wait jsonb, p_seconds double precision,
    p_deaths integer
)
    returns boolean
    language plpgsql
as $$
declare
    r zk_fleet.runs;
    v_queue text;
    v_event text;
begin
    r := zk_fleet.lock_run(p_run);
    -- Locks the claim, and fails if it is another's.
    if r.seq is null or r.token <> p_token or r.phase <> 'running' or not zk_fleet.extend(r, 60) then
        return false;
    end if;
    update zk_fleet.runs set deaths = p_deaths where seq = r.seq;
    v_queue := zk_fleet.absurd_queue(r.queue);
    if p_kind = 'end' and not (p_phase = 'done' and r.is_woken and not r.is_cancelled) then
        perform zk_fleet.finish(r, p_phase, p_failure);
    elsif r.is_cancelled then
        perform zk_fleet.finish(r, 'cancelled', null);
    -- A wake of a run that was about to end is for one more leg.
    elsif p_kind in ('end', 'queue') or (p_kind = 'park' and (r.is_woken
        or (p_wait ->> 'for' = 'children' and zk_fleet.are_finished(p_wait)))) then
        -- As old as it is, it comes before younger ones.
        perform absurd.schedule_run(v_queue, r.claim, r.submitted);
        update zk_fleet.runs set phase = 'queued', claim = null, changed = clock_timestamp() where seq = r.seq;
        perform zk_fleet.ring();
    else
        v_event := r.run || ':' || r.token;
        -- `greatest` passes over null, and a wait without a time has no timeout.
        perform absurd.await_event(
            v_queue, r.task, r.claim, r.token::text, v_event,
            case when p_seconds is null then null else ceil(greatest(p_seconds, 0))::integer end);
        update zk_fleet.runs
            set phase = 'parked', claim = null, wait = p_wait, wake_event = v_event,
                until = clock_timestamp() + make_interval(secs => p_seconds), changed = clock_timestamp()
            where seq = r.seq;
    end if;
    return true;
end;
$$;

-- Sets the next time of a schedule; false if another worker did, or the schedule is another by now.
create function zk_fleet.pass_schedule(p_name text, p_plan text, p_due timestamptz, p_next timestamptz)
    returns boolean
    language plpgsql
as $$
begin
    update zk_fleet.schedules set due = p_next where name = p_name and plan = p_plan and due = p_due;
    return found;
end;
$$;

-- Sets the next time of a schedule and submits its run, unless another worker did.
create function zk_fleet.fire_schedule(
    p_name text, p_plan text, p_due timestamptz, p_next timestamptz,
    p_run text, p_session text, p_format integer, p_job text, p_queue text, out outcome text
)
    language plpgsql
as $$
begin
    outcome := 'same';
    if zk_fleet.pass_schedule(p_name, p_plan, p_due, p_next) then
        outcome := (zk_fleet.submit_run(p_run, p_session, p_format, p_job, p_queue, null, null, 0)).outcome;
    end if;
end;
$$;

-- Workers with the number of their legs. Those whose connection is gone do not live.
create function zk_fleet.list_workers(
    out worker_name text, out is_alive boolean, out is_asked boolean, out legs bigint
)
    returns setof record
    language plpgsql
as $$
begin
    for worker_name, is_asked in select w.name, w.is_draining from zk_fleet.workers w order by w.name loop
        is_alive := not pg_try_advisory_xact_lock_shared(31340, hashtext(worker_name));
        select count(*) into legs from zk_fleet.runs r where r.phase = 'running' and r.worker = worker_name;
        return next;
    end loop;
end;
$$;

-- Number of legs whose lease has ended and that no worker has taken over yet.
create function zk_fleet.count_expired()
    returns bigint
    language plpgsql
as $$
declare
    v_queue integer;
    v_count bigint;
    v_all bigint := 0;
begin
    for v_queue in select number from zk_fleet.queues loop
        execute format(
            'select count(*) from absurd.%I where state = ''running'' and claim_expires_at <= clock_timestamp()',
            'r_' || zk_fleet.absurd_queue(v_queue)) into v_count;
        v_all := v_all + v_count;
    end loop;
    return v_all;
end;
$$;

select zk_fleet.raise_tokens();
insert into zk_fleet.installed (version) values (1);
