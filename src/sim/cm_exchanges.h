#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "cm/events.h"
#include "sim/cm_ledger.h"
#include "sim/verdict.h"

namespace weft::sim {

/// Checks the exchanges other than connection establishment: loading of alternate paths (LAP and
/// APR, IBTA vol 1 §12.8) and service ID resolution (SIDR, §12.11). Users report what they request,
/// answer and receive. Independent of the manager's states. Not thread-safe.
class CmExchanges {
 public:
  using Token = CmLedger::Token;

  explicit CmExchanges(Verdict& verdict) : verdict_(verdict) {}

  /// A side requests its peer to load a path. Returns the path's number, counted from 1, which is
  /// also its service level.
  [[nodiscard]] std::uint8_t path_requested(Token token);
  void path_request_received(Token token, std::uint8_t number, const cm::Path& path);
  void path_answered(Token token, std::uint8_t number, bool is_accepted);
  /// The requester of path `current` received the answer for path `number`.
  void path_answer_received(Token token, std::uint8_t current, std::uint8_t number,
                            bool is_accepted);
  /// The alternate path of a side according to its manager; none if no path was loaded.
  void path_loaded(Token token, CmSide side, const std::optional<cm::Path>& alternate);
  void migrated() { ++migrations_; }

  void lookup_requested(Token token, std::uint32_t host, bool is_offered);
  /// A user was asked to answer the lookup; after answering it may be asked again.
  void lookup_request_received(Token token);
  void lookup_answered(Token token, const cm::SidrRepReceived& answer);
  /// The user of that side ended without an answer.
  void lookup_abandoned(Token token);
  void lookup_answer_received(Token token, const cm::SidrRepReceived& answer);
  /// No program on the host listens for a while.
  void program_down(std::uint32_t host) { without_program_.insert(host); }

  [[nodiscard]] std::uint64_t paths_loaded() const { return paths_loaded_; }
  [[nodiscard]] std::uint64_t migrations() const { return migrations_; }
  [[nodiscard]] std::uint64_t lookups_made() const { return lookups_made_; }

 private:
  struct Path {
    bool is_reported{};
    bool is_delivered{};
    std::optional<bool> is_accepted{};
  };
  struct Lookup {
    std::uint32_t host{};
    bool is_offered{};
    bool is_pending{};  ///< waiting for its user's answer
    bool is_left{};
    bool is_delivered{};
    std::vector<cm::SidrRepReceived> answers{};
  };

  /// Path `number` of a connection; null, and a failure, if it was never requested.
  [[nodiscard]] Path* path(Token token, std::uint8_t number, std::string_view what);
  void fail(Token token, std::string_view what);

  Verdict& verdict_;
  std::map<Token, std::vector<Path>> paths_;
  std::map<Token, Lookup> lookups_;
  std::set<std::uint32_t> without_program_;
  std::uint64_t paths_loaded_{};
  std::uint64_t migrations_{};
  std::uint64_t lookups_made_{};
};

}  // namespace weft::sim
