#pragma once

// What Weft's HCAs can do, as the bits of the verbs API (ibv_device_cap_flags and, above 32 bits,
// the kernel's IB_UVERBS_DEVICE_*): for whoever tells a program of them, by verbs or by the
// kernel's interfaces.

#include <cstdint>

namespace weft::hca {

inline constexpr std::uint64_t kDeviceAutoPathMigration = 1ULL << 4;
inline constexpr std::uint64_t kDeviceCurrentQpStateModify = 1ULL << 7;
inline constexpr std::uint64_t kDevicePortActiveEvent = 1ULL << 10;
inline constexpr std::uint64_t kDeviceSystemImageGuid = 1ULL << 11;
inline constexpr std::uint64_t kDeviceRcRnrNakGeneration = 1ULL << 12;
inline constexpr std::uint64_t kDeviceSrqResize = 1ULL << 13;
inline constexpr std::uint64_t kDeviceMemoryWindow = 1ULL << 17;
inline constexpr std::uint64_t kDeviceXrc = 1ULL << 20;
inline constexpr std::uint64_t kDeviceMemoryManagementExtensions = 1ULL << 21;
inline constexpr std::uint64_t kDeviceMemoryWindowType2b = 1ULL << 24;
inline constexpr std::uint64_t kDeviceFlushGlobal = 1ULL << 38;
inline constexpr std::uint64_t kDeviceFlushPersistent = 1ULL << 39;
inline constexpr std::uint64_t kDeviceAtomicWrite = 1ULL << 40;

/// Those that ibv_query_device(3) says.
inline constexpr std::uint64_t kDeviceCapabilities =
    kDeviceAutoPathMigration | kDeviceCurrentQpStateModify | kDevicePortActiveEvent |
    kDeviceSystemImageGuid | kDeviceRcRnrNakGeneration | kDeviceSrqResize |
    kDeviceMemoryManagementExtensions | kDeviceMemoryWindow | kDeviceMemoryWindowType2b |
    kDeviceXrc;
/// Those that only ibv_query_device_ex(3) has room for.
inline constexpr std::uint64_t kDeviceExtendedCapabilities =
    kDeviceFlushGlobal | kDeviceFlushPersistent | kDeviceAtomicWrite;

}  // namespace weft::hca
