//! When there is trouble, since when, and for how long it is remembered.

use super::*;

fn unreachable() -> Result<(), StoreError> {
    Err(StoreError::Unreachable("gone".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn trouble_began_with_the_last_answer_before_it_and_is_remembered_for_a_while() {
    let (reach, second) = (Reach::new(), Duration::from_secs(1));
    assert_eq!(reach.contact().trouble, None);
    let _ = reach.note(Ok(()));
    for _ in 0..3 {
        tokio::time::advance(second).await;
        let _ = reach.note(unreachable());
    }
    tokio::time::advance(second).await;
    let _ = reach.note(Ok(()));
    tokio::time::advance(second).await;
    let trouble = Trouble { began: 5 * second, ended: second, return_time: RETURN };
    assert_eq!(reach.contact().trouble, Some(trouble), "until the first answer after it");
    tokio::time::advance(REMEMBER).await;
    assert_eq!(reach.contact().trouble, None);
    reach.reconnected();
    assert!(reach.contact().trouble.is_some_and(|trouble| trouble.ended.is_zero()));
}

/// A connection that breaks every `period`, and is back at once; calls are answered four times a second.
async fn break_every(period: Duration, reach: &Reach) {
    for _ in 0..6 {
        let mut left = period;
        while !left.is_zero() {
            let step = left.min(Duration::from_millis(250));
            tokio::time::advance(step).await;
            let _ = reach.note(Ok(()));
            left -= step;
        }
        let _ = reach.note(unreachable());
        tokio::time::advance(Duration::from_millis(100)).await;
        reach.reconnected();
    }
}

#[tokio::test(start_paused = true)]
async fn each_blip_is_trouble_of_its_own_and_soon_over() {
    let reach = Reach::new();
    break_every(Duration::from_secs(2), &reach).await;
    let trouble = reach.contact().trouble.expect("it was a moment ago");
    assert!(trouble.began < BLIP && trouble.return_time == BLIP_RETURN, "{trouble:?}");
    assert_eq!(reach.ailment(), None);
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_too_often_are_one_trouble_of_which_clients_are_to_know() {
    let reach = Reach::new();
    break_every(Duration::from_millis(750), &reach).await;
    let trouble = reach.contact().trouble.expect("it was a moment ago");
    assert!(trouble.began > BREAKING && trouble.return_time == RETURN, "{trouble:?}");
    assert_eq!(reach.ailment(), Some(Ailment::Breaking));
    tokio::time::advance(STEADY).await;
    assert_eq!(reach.ailment(), None);
}

#[tokio::test(start_paused = true)]
async fn after_a_longer_trouble_blips_are_soon_over_again() {
    let reach = Reach::new();
    break_every(Duration::from_millis(750), &reach).await;
    break_every(Duration::from_millis(2500), &reach).await;
    let trouble = reach.contact().trouble.expect("it was a moment ago");
    assert!(trouble.began < BLIP && trouble.return_time == BLIP_RETURN, "{trouble:?}");
    assert_eq!(reach.ailment(), None);
}

#[tokio::test(start_paused = true)]
async fn what_redis_refuses_again_and_again_is_trouble_and_breaks_no_connection() {
    let reach = Reach::new();
    for _ in 0..100 {
        tokio::time::advance(Duration::from_millis(25)).await;
        let _ = reach.note(Ok(()));
        tokio::time::advance(Duration::from_millis(25)).await;
        let _ = reach.note::<()>(Err(StoreError::Refused("WRONGTYPE".to_owned())));
    }
    assert!(reach.contact().trouble.is_some());
    assert_eq!(reach.ailment(), None);
}

/// As when one server of a cluster hangs.
#[tokio::test(start_paused = true)]
async fn calls_that_fail_while_others_are_answered_are_one_trouble() {
    let reach = Reach::new();
    let fails = async {
        for _ in 0..3 {
            let hangs = async {
                sleep(2 * SLOW).await;
                unreachable()
            };
            let _ = reach.call(hangs).await;
        }
    };
    let others = async {
        loop {
            let _ = reach.call(async { Ok(()) }).await;
            sleep(SLOW / 4).await;
        }
    };
    tokio::select! {
        () = fails => {}
        () = others => {}
    }
    let trouble = reach.contact().trouble.expect("it goes on");
    assert!(trouble.began >= 6 * SLOW && trouble.return_time == RETURN, "{trouble:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_took_long_is_trouble_while_it_took() {
    let reach = Reach::new();
    let slow = reach.call(async {
        sleep(2 * SLOW).await;
        Ok(())
    });
    tokio::select! {
        answered = slow => answered.unwrap(),
        () = reach.beat() => {}
    }
    let trouble = Trouble { began: 2 * SLOW, ended: Duration::ZERO, return_time: RETURN };
    assert_eq!(reach.contact().trouble, Some(trouble));
}

/// All have told by then what they could not tell while the store was away.
#[tokio::test(start_paused = true)]
async fn a_slow_call_just_after_a_longer_trouble_is_soon_over() {
    let (reach, second) = (Reach::new(), Duration::from_secs(1));
    let _ = reach.note(Ok(()));
    tokio::time::advance(5 * second).await;
    let _ = reach.note(unreachable());
    let _ = reach.note(Ok(()));
    tokio::time::advance(second / 2).await;
    let slow = reach.call(async {
        sleep(SLOW + second / 4).await;
        Ok(())
    });
    tokio::select! {
        answered = slow => answered.unwrap(),
        () = reach.beat() => {}
    }
    let trouble = reach.contact().trouble.expect("it was a moment ago");
    let since_back = second / 2 + SLOW + second / 4;
    assert_eq!(since_back + trouble.return_time, RETURN, "{trouble:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_this_process_is_no_trouble_whatever_becomes_of_its_calls() {
    let reach = Reach::new();
    let quick = || reach.call(async { Ok(()) });
    quick().await.unwrap();
    let before = Instant::now();
    assert!(!reach.was_stopped_since(before));
    tokio::time::advance(10 * STOPPED).await;
    quick().await.unwrap();
    assert_eq!(reach.contact().trouble, None);
    assert!(reach.was_stopped_since(before) && !reach.was_stopped_since(Instant::now()));
    for answer in [Ok(()), unreachable()] {
        let in_flight = reach.call(async {
            tokio::time::advance(10 * STOPPED).await;
            answer
        });
        let _ = in_flight.await;
        assert_eq!(reach.contact().trouble, None);
    }
    reach.reconnected();
    assert_eq!(reach.contact().trouble, None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_within_trouble_does_not_excuse_all_of_it() {
    let reach = Reach::new();
    let _ = reach.note(Ok(()));
    tokio::select! {
        () = sleep(2 * SLOW) => {}
        () = reach.beat() => {}
    }
    tokio::time::advance(5 * STOPPED).await;
    let _ = reach.call(async { unreachable() }).await;
    assert!(reach.contact().trouble.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_seen_while_calls_wait_and_for_a_moment_after() {
    let reach = Reach::new();
    let quick = reach.call(async { Ok(()) });
    quick.await.unwrap();
    assert!(!reach.has_stalled());
    let held_up = reach.call(async {
        sleep(2 * STALL).await;
        assert!(reach.has_stalled(), "while it waits");
        Ok(())
    });
    held_up.await.unwrap();
    assert!(reach.has_stalled(), "what others had to say is still on its way");
    tokio::time::advance(STALL_CATCH_UP + Duration::from_millis(1)).await;
    assert!(!reach.has_stalled());
    drop(reach.call(std::future::pending::<Result<(), StoreError>>()));
    assert!(!reach.has_stalled());
    assert!(reach.waiting.lock().is_empty(), "also of what was given up");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_trouble_and_no_loss_of_the_way() {
    let reach = Reach::new();
    let _ = reach.note::<()>(Err(StoreError::Refused("it is full".to_owned())));
    assert!(reach.contact().trouble.is_some());
    let _ = reach.note(Ok(()));
    let recovered = tokio::time::timeout(Duration::from_secs(1), reach.recovered()).await;
    assert!(recovered.is_err());
}

/// Time in which this process runs.
async fn run_for(time: Duration, reach: &Reach) {
    let mut left = time;
    while !left.is_zero() {
        let step = left.min(BEAT);
        tokio::time::advance(step).await;
        reach.note_running();
        left -= step;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_answers_is_given_up_once_and_the_next_has_its_time() {
    let reach = Reach::new();
    let moment = Duration::from_millis(1);
    run_for(GIVE_UP_AFTER, &reach).await;
    let _ = reach.note(Ok(()));
    for _ in 0..2 {
        run_for(GIVE_UP_AFTER, &reach).await;
        let _ = reach.note(unreachable());
        assert!(!reach.gives_up());
        run_for(moment, &reach).await;
        assert!(reach.gives_up());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_given_up_for_a_stop_of_this_process() {
    let reach = Reach::new();
    let _ = reach.note(Ok(()));
    run_for(GIVE_UP_AFTER / 2, &reach).await;
    tokio::time::advance(2 * GIVE_UP_AFTER).await;
    assert!(!reach.gives_up());
    run_for(GIVE_UP_AFTER / 2, &reach).await;
    assert!(!reach.gives_up());
    run_for(2 * BEAT, &reach).await;
    assert!(reach.gives_up());
}

#[tokio::test(start_paused = true)]
async fn the_first_success_after_failures_is_a_recovery_and_the_second_is_none() {
    let reach = Reach::new();
    let _ = reach.note(Ok(()));
    let _ = reach.note(unreachable());
    let _ = reach.note(Ok(()));
    reach.recovered().await;
    let _ = reach.note(Ok(()));
    let second = tokio::time::timeout(Duration::from_secs(1), reach.recovered()).await;
    assert!(second.is_err());
}
