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

/// What users of a simulation asked and answered beside the making of connections, and whether what
/// they were told may be: alternate paths (LAP and APR, IBTA vol 1 §12.8) and lookups of service
/// ids (SIDR, §12.11). Knows nothing of the manager's states. One thread.
class CmExchanges {
 public:
  using Token = CmLedger::Token;

  explicit CmExchanges(Verdict& verdict) : verdict_(verdict) {}

  /// A path of a connection that its peer is asked to load; `number` counts from 1 and is the
  /// path's service level.
  [[nodiscard]] std::uint8_t path_asked(Token token);
  void path_announced(Token token, std::uint8_t number, const cm::Path& path);
  void path_answered(Token token, std::uint8_t number, bool is_accepted);
  /// Who asked for path `current` is told an answer, which names the path that it is for.
  void path_told(Token token, std::uint8_t current, std::uint8_t number, bool is_accepted);
  /// The alternate path of a side as its manager has it; none was loaded yet.
  void path_loaded(Token token, CmSide side, const std::optional<cm::Path>& alternate);
  void migrated() { ++migrations_; }

  void lookup_asked(Token token, std::uint32_t host, bool is_offered);
  /// A user hears of it that has to answer; who has answered may be asked again.
  void lookup_announced(Token token);
  void lookup_answered(Token token, const cm::SidrRepReceived& answer);
  /// The user of that side goes without an answer.
  void lookup_left(Token token);
  void lookup_told(Token token, const cm::SidrRepReceived& answer);
  /// Nobody listens on that host for a while.
  void program_down(std::uint32_t host) { without_program_.insert(host); }

  [[nodiscard]] std::uint64_t paths_loaded() const { return paths_loaded_; }
  [[nodiscard]] std::uint64_t migrations() const { return migrations_; }
  [[nodiscard]] std::uint64_t lookups_made() const { return lookups_made_; }

 private:
  struct Path {
    bool is_announced{};
    bool is_told{};
    std::optional<bool> is_accepted{};
  };
  struct Lookup {
    std::uint32_t host{};
    bool is_offered{};
    bool is_pending{};  ///< with a user that has to answer
    bool is_left{};
    bool is_told{};
    std::vector<cm::SidrRepReceived> answers{};
  };

  /// Path `number` of a connection; null and a failure when nobody asked for it.
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
