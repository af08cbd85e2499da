#pragma once

// The numbers of RDMA_NL_NLDEV (linux/rdma/rdma_netlink.h, part of the kernel's ABI), by the names
// that they have there.

#include <cstdint>

namespace weft::host_view {

/// RDMA_NLDEV_CMD_*.
enum class NldevCommand : std::uint16_t {
  Get = 1,
  Set = 2,
  NewLink = 3,
  DelLink = 4,
  PortGet = 5,
  SysGet = 6,
  SysSet = 7,
  ResGet = 9,
  ResQpGet = 10,
  ResCmIdGet = 11,
  ResCqGet = 12,
  ResMrGet = 13,
  ResPdGet = 14,
  GetChardev = 15,
  StatSet = 16,
  StatGet = 17,
  StatDel = 18,
  ResQpGetRaw = 19,
  ResCqGetRaw = 20,
  ResMrGetRaw = 21,
  ResCtxGet = 22,
  ResSrqGet = 23,
  StatGetStatus = 24,
};

/// RDMA_NLDEV_ATTR_*; the size of the value behind each.
enum class NldevAttribute : std::uint16_t {
  Pad = 0,
  DevIndex = 1,                  // u32
  DevName = 2,                   // string
  PortIndex = 3,                 // u32; of a device: its last port
  CapFlags = 4,                  // u64
  FwVersion = 5,                 // string
  NodeGuid = 6,                  // u64
  SysImageGuid = 7,              // u64
  SubnetPrefix = 8,              // u64
  Lid = 9,                       // u32
  SmLid = 10,                    // u32
  Lmc = 11,                      // u8
  PortState = 12,                // u8
  PortPhysState = 13,            // u8
  DevNodeType = 14,              // u8
  ResSummary = 15,               // nested
  ResSummaryEntry = 16,          // nested
  ResSummaryEntryName = 17,      // string
  ResSummaryEntryCurr = 18,      // u64
  ResQp = 19,                    // nested
  ResQpEntry = 20,               // nested
  ResLqpn = 21,                  // u32
  ResRqpn = 22,                  // u32
  ResRqPsn = 23,                 // u32
  ResSqPsn = 24,                 // u32
  ResPathMigState = 25,          // u8
  ResType = 26,                  // u8
  ResState = 27,                 // u8
  ResPid = 28,                   // u32
  ResKernName = 29,              // string
  ResCmId = 30,                  // nested
  ResCmIdEntry = 31,             // nested
  ResPs = 32,                    // u32
  ResSrcAddr = 33,               // sockaddr_storage
  ResDstAddr = 34,               // sockaddr_storage
  ResCq = 35,                    // nested
  ResCqEntry = 36,               // nested
  ResCqe = 37,                   // u32
  ResUsecnt = 38,                // u64
  ResPollCtx = 39,               // u8
  ResMr = 40,                    // nested
  ResMrEntry = 41,               // nested
  ResRkey = 42,                  // u32
  ResLkey = 43,                  // u32
  ResIova = 44,                  // u64
  ResMrlen = 45,                 // u64
  ResPd = 46,                    // nested
  ResPdEntry = 47,               // nested
  ResLocalDmaLkey = 48,          // u32
  ResUnsafeGlobalRkey = 49,      // u32
  NdevIndex = 50,                // u32
  NdevName = 51,                 // string
  ResPdn = 60,                   // u32
  ResCqn = 61,                   // u32
  ResMrn = 62,                   // u32
  ResCmIdn = 63,                 // u32
  ResCtxn = 64,                  // u32
  LinkType = 65,                 // string
  SysNetnsMode = 66,             // u8
  DevProtocol = 67,              // string
  NetNsFd = 68,                  // u32
  ChardevType = 69,              // string
  ChardevName = 70,              // string
  ChardevAbi = 71,               // u64
  Chardev = 72,                  // u64
  UverbsDriverId = 73,           // u64
  StatMode = 74,                 // u32
  StatRes = 75,                  // u32
  StatAutoModeMask = 76,         // u32
  StatCounter = 77,              // nested
  StatCounterEntry = 78,         // nested
  StatCounterId = 79,            // u32
  StatHwcounters = 80,           // nested
  StatHwcounterEntry = 81,       // nested
  StatHwcounterEntryName = 82,   // string
  StatHwcounterEntryValue = 83,  // u64
  DevDim = 84,                   // u8
  ResRaw = 85,                   // octets
  ResCtx = 86,                   // nested
  ResCtxEntry = 87,              // nested
  ResSrq = 88,                   // nested
  ResSrqEntry = 89,              // nested
  ResSrqn = 90,                  // u32
  MinRange = 91,                 // u32
  MaxRange = 92,                 // u32
  SysCopyOnFork = 93,            // u8
};

}  // namespace weft::host_view
