//! Every case of the contract, for every store.

use super::cases;
use super::world::{Kind, World};

macro_rules! contract {
    ($($case:ident($config:ident);)*) => {
        contract!(@store embedded Embedded $($case $config)*);
        contract!(@store redis Redis $($case $config)*);
        contract!(@store cluster Cluster $($case $config)*);
        contract!(@store sharded Sharded $($case $config)*);
    };
    (@store $module:ident $kind:ident $($case:ident $config:ident)*) => {
        mod $module {
            use super::{Kind, World, cases};
            use crate::world::*;
            $(
                #[tokio::test]
                async fn $case() {
                    cases::$case(World::new(Kind::$kind, $config())).await;
                }
            )*
        }
    };
}

contract! {
    joining_shows_a_user_online_since_the_session_began(slow);
    a_bye_is_offline_at_once_with_last_seen(slow);
    a_closed_socket_is_held_back_for_the_grace(slow);
    a_bye_that_comes_late_ends_the_hold(slow);
    who_was_offline_is_online_at_once_whatever_the_cause(slow);
    a_held_back_loss_is_over_after_the_grace(quick);
    a_loss_that_is_older_than_the_grace_is_not_held_back(slow);
    coming_back_within_grace_restores_the_view_and_its_since(slow);
    coming_back_elsewhere_within_grace_restores_the_view(slow);
    who_is_back_in_another_way_is_due_when_the_hold_ends(slow);
    versions_grow_with_every_visible_change_and_only_with_those(slow);
    a_user_of_two_gateways_is_online_until_the_last_leaves(slow);
    a_late_leave_of_an_old_gateway_does_not_override_a_newer_join(slow);
    the_hold_is_that_of_the_last_loss_in_whatever_order_they_are_told(slow);
    a_loss_that_is_told_again_does_not_shorten_the_hold_of_a_later_one(slow);
    losses_that_are_all_told_again_do_not_shorten_the_hold_of_the_last(slow);
    repeating_a_claim_changes_nothing(slow);
    a_drained_user_stays_shown_and_is_dropped_by_a_bye_elsewhere(slow);
    a_place_that_a_drain_keeps_outlives_the_loss_of_another_session(slow);
    a_drained_user_who_comes_back_elsewhere_never_changed(slow);
    a_drained_user_who_does_not_come_back_is_offline_after_the_ttl(quick_ttl);
    refreshing_answers_the_users_that_are_not_known(slow);
    a_gateway_whose_part_lapsed_is_to_join_again_though_another_kept_the_user_alive(quick);
    a_gateway_whose_user_expired_and_came_elsewhere_is_to_join_it_again(quick);
    refreshing_keeps_a_user_online_past_the_ttl(quick);
    who_lives_on_unchanged_is_remembered_and_who_is_gone_for_long_is_not(forgetful);
    a_user_whose_gateway_stopped_is_found_offline_with_last_seen(quick);
    a_lapsed_user_is_held_back_for_the_grace(quick_ttl);
    one_gateway_of_two_that_stops_takes_only_its_devices(quick);
    a_gateway_that_lapsed_for_a_user_of_two_is_told_by_its_refresh(quick);
    the_status_that_was_set_last_wins_over_devices(slow);
    a_session_without_status_does_not_hide_another_ones(slow);
    an_invisible_user_looks_like_one_who_left(slow);
    what_an_invisible_user_does_leaks_nothing(slow);
    the_loss_of_an_invisible_session_is_held_as_any_is(slow);
    who_was_shown_in_a_version_of_elsewhere_gets_a_newer_one(slow);
    who_was_here_invisible_is_online_since_being_visible(slow);
    a_user_who_was_never_visible_was_never_seen(slow);
    a_snapshot_answers_in_the_order_asked(slow);
    five_hundred_users_go_in_one_call(slow);
    an_empty_batch_is_nothing(slow);
    every_gateway_hears_every_change_its_own_included(slow);
    every_gateway_hears_every_notice_as_it_was_told(slow);
    orders_are_remembered_with_the_latest_of_their_dates(slow);
    orders_are_read_in_pages_and_forgotten_when_they_are_old(slow);
    odd_user_ids_and_texts_come_back_as_they_went_in(slow);
}
