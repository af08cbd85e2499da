#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/strong.h"
#include "base/time.h"
#include "wire/mad/path_record.h"

namespace weft::sa {

/// The port for which a path is asked, as its host's kernel names it.
struct NamedPort {
  std::string device{};
  std::uint8_t number{};
};

/// Somebody whom an SA client asks for a path before it asks SA (R-SA-8).
class PathSource {
 public:
  using QuestionId = Ordered<struct PathQuestionTag, std::uint32_t>;
  /// None: ask SA. Called once for each question that is not cancelled, never from inside ask().
  using Done = std::function<void(const std::optional<wire::PathRecord>& path, Instant now)>;

  PathSource() = default;
  virtual ~PathSource() = default;
  PathSource(const PathSource&) = delete;
  PathSource& operator=(const PathSource&) = delete;

  /// What is known without asking anybody; none: ask(). The ends are those that were asked for.
  [[nodiscard]] virtual std::optional<wire::PathRecord> known(const wire::PathRecord& /*wanted*/,
                                                              std::uint64_t /*mask*/,
                                                              Instant /*now*/) {
    return std::nullopt;
  }
  /// Asks for what `mask` selects of `wanted`. None: nobody is there to be asked, and `done` is not
  /// called. The time until `done` is bounded.
  [[nodiscard]] virtual std::optional<QuestionId> ask(const NamedPort& port,
                                                      const wire::PathRecord& wanted,
                                                      std::uint64_t mask, Done done,
                                                      Instant now) = 0;
  /// `done` will not be called.
  virtual void cancel(QuestionId question) = 0;
};

}  // namespace weft::sa
