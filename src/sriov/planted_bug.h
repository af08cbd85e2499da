#pragma once

#include <cstdint>

/// Deliberate bugs of steering, mapping and aggregation that the simulation must find; several are
/// what mlx4's history had to mend. Test builds (WEFT_PLANTED_BUGS) can enable one at run time, for
/// one thread; in a release build `planted` is false at compile time.
namespace weft::sriov {

enum class PlantedBug : std::uint8_t {
  None,
  // Steering
  GidIgnored,           ///< the GRH's destination GID is not looked at
  DeadFunctionSteered,  ///< the GID of a function that is gone still leads to its number
  OwnersMayConflict,    ///< the destination GID wins over another function's transaction ID
  SidrReadAsReq,        ///< a SIDR_REQ is steered by the bytes where a REQ has its GID
  RejTimeoutLost,       ///< a REJ for a timeout without a remote ID is not steered
  // Mapping
  TransactionIdNotMapped,    ///< requests keep their transaction IDs
  TableEntryShared,          ///< the table of transactions forgets whose an ID is
  CommunicationIdNotMapped,  ///< a REQ keeps its communication ID
  ClosingIdReused,           ///< a new REQ takes an ID whose release is scheduled
  ReleasedAtOnce,            ///< a DREQ frees its ID without the delay
  IdsLeakAtRemoval,          ///< IDs of a function that is gone are kept
  // Aggregation
  LeaveForgotten,          ///< the last leave is not told to SA
  LeaveOfOneLeavesAll,     ///< a leave takes bits that others still hold
  JoinStateNotUnited,      ///< SA is asked for the new bits in place of the union
  AnswerWithoutJoin,       ///< a join for new bits is answered without asking SA
  RemovalKeepsMembership,  ///< memberships of a function that is gone are kept
  LostJoinNotWithdrawn,    ///< a join without an answer is not withdrawn from SA
  ReregisterIgnored,       ///< groups are not joined anew after a client re-register
};

inline constexpr PlantedBug kLastBug = PlantedBug::ReregisterIgnored;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::sriov
