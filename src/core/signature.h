#pragma once

#include "verbs/signature.h"

namespace weft::core {

using verbs::SignatureAttributes;
using verbs::SignatureDomain;
using verbs::SignatureError;
using verbs::SignatureStatus;
using verbs::SignatureType;
using verbs::T10DifDomain;

}  // namespace weft::core
