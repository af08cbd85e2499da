#pragma once

#include "base/assert.h"
#include "cm/testing/network.h"
#include "cm/types.h"

namespace weft::cm {

/// An id in a state that it was brought into by its user and its peer.
struct InState {
  TestHost* host{};
  CmId id{};
};

namespace internal {

inline void must(const Result<void>& result) { static_cast<void>(result.value()); }

[[nodiscard]] inline InState connecting(TestCmNetwork& net, State state) {
  TestHost& a = net.a();
  TestHost& b = net.b();
  const InState client{.host = &a, .id = a.make()};
  (void)b.listener(0x1000);
  must(a.cm.send_req(client.id, net.request(), net.now));
  net.run_shortly();
  const InState server{.host = &b, .id = b.newest};
  constexpr std::uint8_t kLong = 20;
  if (state == State::ReqSent || state == State::ReqRcvd) {
    return state == State::ReqSent ? client : server;
  }
  if (state == State::MraReqSent || state == State::MraReqRcvd) {
    must(b.cm.send_mra(server.id, kLong, {}, net.now));
    net.run_shortly();
    return state == State::MraReqSent ? server : client;
  }
  must(b.cm.send_rep(server.id, TestCmNetwork::reply(), net.now));
  net.run_shortly();
  if (state == State::MraRepSent || state == State::MraRepRcvd) {
    must(a.cm.send_mra(client.id, kLong, {}, net.now));
    net.run_shortly();
    return state == State::MraRepSent ? client : server;
  }
  return state == State::RepSent ? server : client;
}

[[nodiscard]] inline InState connected(TestCmNetwork& net, State state) {
  const Connected ids = connect(net);
  const InState client{.host = &net.a(), .id = ids.a};
  const InState server{.host = &net.b(), .id = ids.b};
  if (state == State::DreqSent || state == State::DreqRcvd || state == State::Timewait) {
    must(net.a().cm.send_dreq(ids.a, {}, net.now));
    net.run_shortly();
    if (state == State::Timewait) {
      must(net.b().cm.send_drep(ids.b, {}, net.now));
      net.run_for(Duration::microseconds(50));
    }
    return state == State::DreqRcvd ? server : client;
  }
  if (state == State::Established) {
    return client;
  }
  must(net.a().cm.send_lap(ids.a, TestCmNetwork::alternate(net.a(), net.b()), {}, net.now));
  net.run_shortly();
  if (state == State::MraLapSent || state == State::MraLapRcvd) {
    must(net.b().cm.send_mra(ids.b, 20, {}, net.now));
    net.run_shortly();
  }
  return state == State::LapRcvd || state == State::MraLapSent ? server : client;
}

}  // namespace internal

[[nodiscard]] inline InState put_into(TestCmNetwork& net, State state) {
  InState result;
  if (state == State::Idle) {
    result = {.host = &net.a(), .id = net.a().make()};
  } else if (state == State::Listen) {
    result = {.host = &net.a(), .id = net.a().listener(0x77)};
  } else if (state == State::SidrReqSent || state == State::SidrReqRcvd) {
    (void)net.b().listener(0x1000);
    const CmId id = net.a().make();
    internal::must(net.a().cm.send_sidr_req(
        id, {.path = TestCmNetwork::path(net.a(), net.b()), .service_id = 0x1000}, net.now));
    net.run_shortly();
    result = state == State::SidrReqSent ? InState{.host = &net.a(), .id = id}
                                         : InState{.host = &net.b(), .id = net.b().newest};
  } else if (state < State::Established) {
    result = internal::connecting(net, state);
  } else {
    result = internal::connected(net, state);
  }
  WEFT_ASSERT(result.host->state(result.id) == state, "the state was reached");
  return result;
}

}  // namespace weft::cm
