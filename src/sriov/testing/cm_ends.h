#pragma once

// A communication manager of a function, as small as the simulation needs it. All functions give
// their connections the same numbers, and take one anew as soon as its connection is closed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sriov/cm_proxy.h"
#include "sriov/testing/mads.h"
#include "wire/cm/dreq.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"

namespace weft::sriov::testing {

enum class EndState : std::uint8_t { ReqSent, RepSent, Established, DreqSent, Closed };

/// One end of a connection. `cookie` names the connection; every message of it carries it.
struct End {
  std::uint64_t cookie{};
  std::uint64_t peer_life{};
  Lid peer_lid{};
  Gid peer_gid{};
  std::uint32_t local{};
  std::uint32_t peer{};  ///< its ID; 0 as long as it is unknown
  EndState state{};
  Instant since{};
  unsigned tries{};
};

inline constexpr std::size_t kCookieAt = wire::kMadBytes - 8;  ///< private data in every message

inline std::uint64_t cookie_of(const MadBytes& mad) {
  std::uint64_t cookie = 0;
  for (std::size_t i = kCookieAt; i < mad.size(); ++i) {
    cookie = cookie << 8 | std::to_integer<std::uint64_t>(mad[i]);
  }
  return cookie;
}
inline void set_cookie(MadBytes& mad, std::uint64_t cookie) {
  for (std::size_t i = 0; i < 8; ++i) {
    mad[kCookieAt + i] = static_cast<std::byte>(cookie >> (56 - 8 * i));
  }
}

class CmEnds {
 public:
  static constexpr Duration kRetryAfter = Duration::seconds(2);
  static constexpr unsigned kTries = 5;

  /// Sends a message of an end to its peer.
  using Send = std::function<void(const End&, MadBytes)>;

  explicit CmEnds(Send send) : send_(std::move(send)) {}

  void connect(std::uint64_t cookie, std::uint64_t peer_life, Lid peer_lid, const Gid& peer_gid,
               Instant now) {
    ends.push_back({.cookie = cookie,
                    .peer_life = peer_life,
                    .peer_lid = peer_lid,
                    .peer_gid = peer_gid,
                    .local = free_number(),
                    .state = EndState::ReqSent,
                    .since = now});
    say(ends.back(), wire::CmAttribute::Req);
  }
  void disconnect(End& end, Instant now) {
    change(end, EndState::DreqSent, now);
    say(end, wire::CmAttribute::Dreq);
  }

  /// False if the message belongs to another connection than its cookie says.
  bool receive(const MadBytes& mad, std::uint64_t peer_life, Lid slid, Instant now) {
    const auto attribute = static_cast<wire::CmAttribute>(header_of(mad).attribute_id);
    const CommunicationIdPair ids = communication_ids_of(mad);
    End* const end = attribute == wire::CmAttribute::Req ? find_cookie(cookie_of(mad))
                                                         : find(ids.remote, ids.local, mad);
    if (attribute == wire::CmAttribute::Req) {
      if (end == nullptr) {
        ends.push_back({.cookie = cookie_of(mad),
                        .peer_life = peer_life,
                        .peer_lid = slid,
                        .local = free_number(),
                        .peer = ids.local,
                        .state = EndState::RepSent,
                        .since = now});
        say(ends.back(), wire::CmAttribute::Rep);
      }
      return true;
    }
    if (end == nullptr) {
      return ids.remote == 0 || attribute == wire::CmAttribute::Rej;
    }
    if (end->cookie != cookie_of(mad)) {
      return false;
    }
    advance(*end, attribute, ids.local, now);
    return true;
  }

  void tick(Instant now) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      End& end = ends[i];
      const bool waits = end.state != EndState::Established && end.state != EndState::Closed;
      if (!waits || now < end.since + kRetryAfter) {
        continue;
      }
      if (end.state == EndState::DreqSent && now >= end.since + kRetryAfter * kTries) {
        // Its timer ran while the function's port was not active: it gave up then, unheard.
        change(end, EndState::Closed, end.since + kRetryAfter * kTries);
        continue;
      }
      end.since = now;
      if (++end.tries >= kTries) {
        give_up(end, now);
      } else {
        say(end, end.state == EndState::ReqSent   ? wire::CmAttribute::Req
                 : end.state == EndState::RepSent ? wire::CmAttribute::Rep
                                                  : wire::CmAttribute::Dreq);
      }
    }
  }

  End* find_cookie(std::uint64_t cookie) {
    for (End& end : ends) {
      if (end.cookie == cookie) {
        return &end;
      }
    }
    return nullptr;
  }

  std::vector<End> ends;

 private:
  /// The lowest number whose connections are closed; a REP may still come to one that has had none.
  std::uint32_t free_number() const {
    std::uint32_t number = 1;
    const auto is_used = [&] {
      for (const End& end : ends) {
        if (end.local == number && (end.state != EndState::Closed || end.peer == 0)) {
          return true;
        }
      }
      return false;
    };
    while (is_used()) {
      ++number;
    }
    return number;
  }
  /// The newest with both IDs; a peer whose ID is not known yet may have any.
  End* find(std::uint32_t local, std::uint32_t peer, const MadBytes& mad) {
    if (local == 0) {
      return find_cookie(cookie_of(mad));  // a REJ for a timeout names nothing else
    }
    End* found = nullptr;
    for (End& end : ends) {
      const bool may_be = end.peer == peer || end.peer == 0 || peer == 0;
      if (end.local == local && may_be &&
          (found == nullptr || end.peer == peer || found->peer != peer)) {
        found = &end;
      }
    }
    return found;
  }

  static void change(End& end, EndState state, Instant now) {
    end.state = state;
    end.since = now;
    end.tries = 0;
  }

  void advance(End& end, wire::CmAttribute attribute, std::uint32_t peer, Instant now) {
    switch (attribute) {
      case wire::CmAttribute::Rep:
        if (end.state == EndState::ReqSent) {
          end.peer = peer;
          change(end, EndState::Established, now);
        }
        if (end.state == EndState::Established) {
          say(end, wire::CmAttribute::Rtu);
        }
        break;
      case wire::CmAttribute::Rtu:
        if (end.state == EndState::RepSent) {
          change(end, EndState::Established, now);
        }
        break;
      case wire::CmAttribute::Dreq:
        if (end.state != EndState::Closed) {
          change(end, EndState::Closed, now);
        }
        say(end, wire::CmAttribute::Drep);
        break;
      case wire::CmAttribute::Drep:
      case wire::CmAttribute::Rej:
        if (end.state != EndState::Closed) {
          change(end, EndState::Closed, now);
        }
        break;
      default:
        break;
    }
  }

  void give_up(End& end, Instant now) {
    const bool is_connecting = end.state == EndState::ReqSent || end.state == EndState::RepSent;
    change(end, EndState::Closed, now);
    if (is_connecting) {
      say(end, wire::CmAttribute::Rej);
    }
  }

  void say(const End& end, wire::CmAttribute attribute) {
    MadBytes mad{};
    if (attribute == wire::CmAttribute::Req) {
      wire::Req req{.local_communication_id = end.local};
      req.primary.remote_gid = end.peer_gid;
      mad = make_cm(attribute, req);
    } else {
      wire::Rej message{.local_communication_id = end.local, .remote_communication_id = end.peer};
      message.reason = wire::RejectReason::Timeout;
      mad = attribute == wire::CmAttribute::Rej
                ? make_cm(attribute, message)
                : make_cm(attribute, wire::Rtu{.local_communication_id = end.local,
                                               .remote_communication_id = end.peer});
    }
    set_cookie(mad, end.cookie);
    send_(End{end}, mad);
  }

  Send send_;
};

}  // namespace weft::sriov::testing
