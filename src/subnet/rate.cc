#include "subnet/rate.h"

#include <array>

namespace weft::subnet {
namespace {

struct RateCode {
  std::uint8_t code;
  std::uint32_t hundreds_of_mbps;
};

/// Rate codes (IBTA vol 1 §15.2.5.16); later ones as numbered in rdma-core's enum ibv_rate.
constexpr auto kRates = std::to_array<RateCode>({
    {2,  25   },
    {3,  100  },
    {4,  300  },
    {5,  50   },
    {6,  200  },
    {7,  400  },
    {8,  600  },
    {9,  800  },
    {10, 1200 },
    {11, 140  },
    {12, 560  },
    {13, 1120 },
    {14, 1680 },
    {15, 250  },
    {16, 1000 },
    {17, 2000 },
    {18, 3000 },
    {19, 280  },
    {20, 500  },
    {21, 4000 },
    {22, 6000 },
    {23, 8000 },
    {24, 12000}
});

std::uint32_t lanes(std::uint8_t width) {
  switch (width) {
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 1;
  }
}

/// Rate of one lane in units of 100 Mb/s. A nonzero extended speed takes precedence.
std::uint32_t lane_rate(const wire::PortInfo& info) {
  switch (info.link_speed_ext_active) {
    case 1:
      return 140;
    case 2:
      return 250;
    case 4:
      return 500;
    case 8:
      return 1000;
    default:
      break;
  }
  switch (info.link_speed_active) {
    case 4:
      return 100;
    case 2:
      return 50;
    default:
      return 25;
  }
}

}  // namespace

std::uint32_t rate_hundreds_of_mbps(std::uint8_t rate) {
  for (const RateCode& each : kRates) {
    if (each.code == rate) {
      return each.hundreds_of_mbps;
    }
  }
  return 0;
}

std::uint8_t rate_of(const wire::PortInfo& info) {
  const std::uint32_t wanted = lanes(info.link_width_active) * lane_rate(info);
  RateCode best = kRates[0];
  for (const RateCode& each : kRates) {  // the fastest that does not exceed the link
    if (each.hundreds_of_mbps <= wanted && each.hundreds_of_mbps > best.hundreds_of_mbps) {
      best = each;
    }
  }
  return best.code;
}

}  // namespace weft::subnet
