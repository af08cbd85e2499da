#pragma once

// Tables that functions of a port have asked SA for and not taken yet. SA keeps an answer by RMPP
// until its last segment is acknowledged (IBTA vol 1 §13.6.2), and since it knows all functions of
// a port by one LID, their answers have one share of what it keeps. So a function that acknowledges
// nothing could use that up; this leaves each of the others a part. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/time.h"
#include "sriov/types.h"
#include "wire/mad/rmpp.h"

namespace weft::sriov {

/// All numbers are policy.
struct OpenTableLimits {
  std::size_t of_port{56};                   ///< a little less than SA's share (mad::Limits)
  std::size_t part{4};                       ///< a function may have 1/4 of those that are left
  Duration lifetime{Duration::seconds(20)};  ///< since the last segment: SA has given it up
};

class OpenTables {
 public:
  explicit OpenTables(const OpenTableLimits& limits) : limits_(limits) {}

  /// A MAD of class SubnAdm that the function sends. False: it asks for one more table, and the
  /// function has as many as are left to all; SA must not see it. The physical function, whose port
  /// it is, is counted and never refused.
  [[nodiscard]] bool handle_outbound(FunctionId function, const MadBytes& mad, Instant now);
  /// One that it gets, with its own transaction ID.
  void handle_inbound(FunctionId function, const MadBytes& mad, Instant now);
  void remove(FunctionId function);

  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;
  [[nodiscard]] std::size_t size() const { return open_.size(); }
  [[nodiscard]] std::size_t count_of(FunctionId function) const;

 private:
  using Key = std::pair<FunctionId, std::uint64_t>;  // whose, and the transaction ID
  struct Table {
    std::uint32_t last_segment{};  // 0: not known yet
    Instant expires;
  };

  [[nodiscard]] bool may_open(FunctionId function) const;

  OpenTableLimits limits_;
  std::map<Key, Table> open_;
};

}  // namespace weft::sriov
