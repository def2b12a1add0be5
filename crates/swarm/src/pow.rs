//! pow
