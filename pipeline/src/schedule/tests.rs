use super::*;

fn soc(num_aic: u32) -> Soc {
    Soc {
        num_aic,
        ..Soc::named("Ascend910B1").unwrap()
    }
}

fn parse(text: &str) -> Result<Schedule, ScheduleError> {
    Schedule::parse(text, Path::new("mine.toml"))
}

fn group(first: u32, num: u32) -> CoreGroup {
    CoreGroup { first, num }
}

#[test]
fn the_seed_has_its_published_groups_on_24_cores() {
    let tiling = Schedule::named("seed").unwrap().resolve(&soc(24), 16);
    let tiling = tiling.unwrap();
    assert_eq!((tiling.gmm1, tiling.gmm2), (group(0, 16), group(16, 8)));
    let vector = [tiling.dispatch, tiling.swiglu, tiling.combine];
    assert_eq!(vector, [group(0, 16), group(16, 16), group(32, 16)]);
    assert_eq!(
        (
            tiling.all_cores_experts,
            tiling.join_from,
            tiling.combine_start_after
        ),
        (2, 0, 3)
    );
}

#[test]
fn every_preset_resolves_on_any_number_of_cores_and_experts() {
    for (name, _) in Schedule::PRESETS {
        let schedule = Schedule::named(name).unwrap();
        for cores in 1..=25 {
            for experts in [1, 2, 3, 16, 129] {
                schedule
                    .resolve(&soc(cores), experts)
                    .unwrap_or_else(|error| panic!("{name} on {cores}, {experts}: {error}"));
            }
        }
    }
}

#[test]
fn a_schedule_is_read_as_it_is_written() {
    for (name, _) in Schedule::PRESETS {
        let schedule = Schedule::named(name).unwrap();
        let text = toml::to_string(&schedule).unwrap();
        assert_eq!(parse(&text).unwrap(), schedule, "{text}");
    }
}

#[test]
fn groups_overlap_across_the_last_core_too() {
    assert!(group(0, 4).overlaps(group(3, 2), 8));
    assert!(!group(0, 4).overlaps(group(4, 4), 8));
    assert!(group(0, 4).overlaps(group(6, 3), 8));
    assert!(!group(1, 3).overlaps(group(6, 3), 8));
    assert!(group(6, 4).overlaps(group(1, 1), 8));
}

#[test]
fn errors_name_the_choice_its_value_and_the_rule() {
    let cases = [
        (
            "[gmm1]\ncores = 25",
            "gmm1.cores is 25, but the device has 1 to 24 matrix cores",
        ),
        ("[swiglu]\ncores = 0", "swiglu.cores is 0"),
        (
            "experts_per_wave = 0",
            "experts_per_wave is 0, but must be at least 1",
        ),
        (
            "[gmm2]\njoin_from = 1",
            "gmm2.join_from is 1, but gmm2.cores is \"all\"",
        ),
        (
            "[unpermute]\nearly_percent = 10",
            "unpermute.early_percent is 10, but combine.cores",
        ),
        (
            "[combine]\ncores = 8\n[unpermute]\nearly_percent = 101",
            "unpermute.early_percent is 101, but must be at most 100",
        ),
        (
            "experts_per_wave = 2\n[combine]\nstart_after = 4",
            "combine.start_after is 4, but must be below 4, two waves of 2",
        ),
    ];
    for (text, message) in cases {
        let error = parse(text).unwrap().resolve(&soc(24), 16).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn what_is_no_schedule_is_refused_with_its_place() {
    for (text, message) in [
        ("[gmm3]\ncores = 1", "unknown field `gmm3`"),
        ("[gmm1]\ncores = \"4/3\"", "cores is \"4/3\""),
        ("[gmm1]\ncores = -1", "cores must be a number"),
        ("[combine]\npath = \"tiny\"", "unknown variant `tiny`"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(
            error.contains("mine.toml") && error.contains(message),
            "{error}"
        );
    }
    let error = Schedule::named("sead").unwrap_err().to_string();
    assert!(
        error.contains("\"sead\" is no preset (seed, stages, waves)"),
        "{error}"
    );
}
