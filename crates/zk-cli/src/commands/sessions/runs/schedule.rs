use std::time::Duration;

use zk_core::service::{CronError, Schedule, ScheduleTimes};
use zk_engine::Placement;

use super::{engine, name, preset, runs};
use crate::app::{AppContext, runtime};
use crate::args::fleet::ScheduleArgs;
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};

/// Adds, removes or lists schedules.
pub(crate) fn schedule(app: &AppContext, args: &ScheduleArgs) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let Some(schedule) = &args.name else {
        let plans = runtime()?.block_on(engine(machine)?.schedules())?;
        let mut lines: Vec<String> = plans.iter().map(schedule_row).collect();
        if lines.is_empty() {
            lines.push("there are no schedules".to_owned());
        }
        return print(machine, &lines);
    };
    let schedule = name(schedule)?;
    if args.remove {
        let is_removed = runtime()?.block_on(engine(machine)?.unschedule(&schedule))?;
        let none =
            || Failure::usage(format!("there is no schedule `{schedule}`; `zk fleet schedule` lists them"));
        return is_removed
            .then_some(())
            .ok_or_else(none)
            .and_then(|()| print(machine, &[format!("{schedule} is removed")]));
    }
    let text = args.text.as_deref().unwrap_or_default();
    let times = schedule_times(args)?;
    let placement = Placement {
        preset: preset(app)?,
        workspace: args.workspace.as_deref().map(name).transpose()?,
        queue: args.queue.as_deref().map(name).transpose()?,
        ..Placement::default()
    };
    let place = (app.work.cwd.clone(), text);
    let plan = runtime()?.block_on(runs(machine)?.schedule(schedule, times, place, placement))?;
    print(machine, &[schedule_row(&plan)])
}

fn schedule_row(plan: &Schedule) -> String {
    let times = match &plan.times {
        ScheduleTimes::Every(pause) => format!("every {} s", pause.as_secs()),
        ScheduleTimes::DailyAt(minute) => format!("daily at {:02}:{:02} UTC", minute / 60, minute % 60),
        ScheduleTimes::Cron(line) => format!("at `{line}`"),
    };
    format!("{}  {times}  prompt in session {}", plan.name, plan.job.template)
}

fn schedule_times(args: &ScheduleArgs) -> Outcome<ScheduleTimes> {
    let wrong = |text: &str, wanted: &str| Failure::usage(format!("`{text}` is no time: use {wanted}"));
    if let Some(text) = &args.daily {
        let minute = text.split_once(':').and_then(|(hour, minute)| {
            let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        });
        return minute.map(ScheduleTimes::DailyAt).ok_or_else(|| wrong(text, "HH:MM, such as 03:30"));
    }
    if let Some(line) = &args.cron {
        return line
            .parse()
            .map(ScheduleTimes::Cron)
            .map_err(|error: CronError| Failure::usage(error.to_string()));
    }
    let text = args.every.as_deref().unwrap_or_default();
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let count = text.strip_suffix(unit)?.parse::<u64>().ok().filter(|count| *count > 0)?;
        count.checked_mul(*seconds)
    });
    let wanted = "a number and s, m, h or d, such as 15m";
    seconds
        .map(|seconds| ScheduleTimes::Every(Duration::from_secs(seconds)))
        .ok_or_else(|| wrong(text, wanted))
}
