"""placeholder while the parts are written"""
